"""Kills at random calls of Claude Code, Codex and opencode: of durabench, container and daemon."""

import json
import random
import re
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agent.arms.command.recipe import Recipe
from agent.gateway.calls import _without
from tests.agent.arms.command.from_npm import recipe_from_npm
from tests.agent.arms.command.talking import SERVERS, says
from tests.durability.faults.program import (
    DOCKER_INSTANCE,
    Program,
    experiment,
    half_written,
    results,
)
from tests.servers.openai_server import OpenAIServer, Reply
from tests.servers.strict import Dialect

pytestmark = [
    pytest.mark.docker,
    pytest.mark.full,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.parametrize(
        ("name", "dialect"),
        [("claude-code", "messages"), ("codex", "responses"), ("opencode", "chat")],
    ),
]

COMMANDS = ["ls", "echo one >> README.md", "echo two >> README.md", "git diff", "git status"]
PATIENCE_S = 300


@dataclass
class Counted:
    """A script that counts requests by content, and lets something happen once during one."""

    strict: Dialect
    recipe: Recipe
    during: int = 0
    happens: Callable[[], None] = lambda: None
    sent: Counter[str] = field(default_factory=Counter)
    disturbed: set[str] = field(default_factory=set)
    """The requests in flight when it happened."""
    _in_flight: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, body: dict[str, Any]) -> Reply:
        content = self._content(body)
        self._in_flight.append(content)
        with self._lock:
            self.sent[content] += 1
            if self.sent.total() == self.during:
                self.disturbed = {*self._in_flight}
                self.happens()
                self.disturbed |= {*self._in_flight}
            reply = self.strict(body)
        self._in_flight.remove(content)
        return reply

    def _content(self, body: dict[str, Any]) -> str:
        """Return a request without what the recipe calls volatile."""
        stable = _without(body, [path.split(".") for path in self.recipe.volatile])
        text = json.dumps(stable, ensure_ascii=False, sort_keys=True)
        for pattern in self.recipe.volatile_text:
            text = re.sub(pattern, "", text)
        return text


def declared(recipe: Recipe, dialect: str, server: OpenAIServer) -> dict[str, Any]:
    """Declare one instance in a container, which the program solves on a model of its dialect."""
    base = server.url.removesuffix("/v1") if dialect == "messages" else server.url
    content = experiment("docker", [DOCKER_INSTANCE], base, **SERVERS[dialect][1])
    options = {"recipe": recipe.model_dump(mode="json", exclude_defaults=True)}
    return {**content, "arms": [{"name": "program", "agent": "command", "options": options}]}


def counted(recipe: Recipe, dialect: str) -> Counted:
    kind, _ = SERVERS[dialect]
    strict = kind(partial(says, commands=COMMANDS), reasons=dialect == "responses")
    # The calls of a run are at least one for each command and one more.
    during = random.Random(recipe.name).randint(1, len(COMMANDS))
    return Counted(strict, recipe, during)


def outcome(program: Program) -> dict[str, Any]:
    found = results(program.store)[DOCKER_INSTANCE]
    return {"outcome": found["outcome"], "patches": found["patches"], "calls": len(found["calls"])}


Undisturbed = Callable[[str, str], dict[str, Any]]


@pytest.fixture(scope="module")
def undisturbed(
    tmp_path_factory: pytest.TempPathFactory, shared_prefect: dict[str, str]
) -> Undisturbed:
    """Return a function that returns the outcome of a run without faults."""
    known: dict[str, dict[str, Any]] = {}

    def run(name: str, dialect: str) -> dict[str, Any]:
        if name not in known:
            recipe = recipe_from_npm(name)
            answers = counted(recipe, dialect)
            with OpenAIServer(answers) as server:
                folder = tmp_path_factory.mktemp("undisturbed")
                content = declared(recipe, dialect, server)
                program = Program(folder, content, {**shared_prefect, **_KEYS})
                ended = program.run(PATIENCE_S)
            assert ended.code == 0, ended.output
            assert answers.strict.refused == []
            known[name] = outcome(program)
            assert known[name]["outcome"] == "submitted"
            assert "+two" in known[name]["patches"][0]
        return known[name]

    return run


_KEYS = {"ANTHROPIC_API_KEY": "throw-away"}


def as_if_undisturbed(program: Program, answers: Counted, expected: dict[str, Any]) -> None:
    """Check that only disturbed requests can have been sent twice, and all else is equal."""
    assert answers.disturbed
    assert answers.strict.refused == []
    again = {content for content, times in answers.sent.items() if times > 1}
    assert again <= answers.disturbed
    assert answers.sent.total() == program.billed_calls()
    assert outcome(program) == expected
    assert half_written(program.store) == []


def test_a_killed_durabench_buys_no_answer_twice(
    name: str,
    dialect: str,
    undisturbed: Undisturbed,
    shared_prefect: dict[str, str],
    tmp_path: Path,
) -> None:
    """Only requests in flight, whose answers were lost with the process, are sent again."""
    recipe = recipe_from_npm(name)
    answers = counted(recipe, dialect)
    with OpenAIServer(answers) as server:
        program = Program(tmp_path, declared(recipe, dialect, server), {**shared_prefect, **_KEYS})
        running = program.start()
        answers.happens = running.kill
        running.until(lambda: answers.disturbed, PATIENCE_S)
        ended = program.run(PATIENCE_S)
    assert ended.code == 0, ended.output
    assert max(answers.sent[content] for content in answers.disturbed) == 2
    as_if_undisturbed(program, answers, undisturbed(name, dialect))
