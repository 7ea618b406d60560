"""Programs from npm, unmodified, in containers without network."""

import json
import re
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agent.arms.command.recipe import Recipe
from agent.errors import BudgetExhausted
from agent.gateway.masks import mask
from agent.journal import Limit
from agent.types import Task
from tests.agent.arms.command.from_npm import recipe_from_npm
from tests.agent.arms.command.programs import Program, report
from tests.agent.arms.command.talking import SERVERS, says
from tests.agent.arms.command.test_in_docker import Containers
from tests.servers.openai_server import OpenAIServer

pytestmark = [pytest.mark.docker, pytest.mark.slow]


COMMANDS = [
    "ls",
    "echo 3 passed in 0.$(date +%N)s; date",
    "printf 'hello\\n' > greeting.txt",
    "cat greeting.txt",
]
"""Commands that solve the task. One prints other values each time."""


def program(tmp_path: Path, name: str, model: str, server: OpenAIServer, image: str) -> Program:
    base = server.url.removesuffix("/v1") if model == "messages" else server.url
    spec = {**SERVERS[model][1], "api_base": base}
    made = Program(tmp_path, recipe_from_npm(name), spec, run_limit_s=200)
    made.workspaces = Containers(image)
    return made


def _names_today(recipe: Recipe, body: dict[str, Any]) -> bool:
    """Return True if the digest of a request would be another one tomorrow."""
    text = json.dumps(body, ensure_ascii=False)
    for pattern in recipe.volatile_text:
        text = re.sub(pattern, "", text)
    today = datetime.now(UTC)
    text = mask(text, today).text
    return any(today.strftime(each) in text for each in ("%Y-%m-%d", "%b %d %Y", "%B %Y"))


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("claude-code", "messages"),
        ("claude-code", "chat"),
        ("codex", "responses"),
        ("codex", "chat"),
        ("opencode", "chat"),
        ("opencode", "messages"),
        ("gemini-cli", "gemini"),
        ("gemini-cli", "chat"),
        ("acp:opencode", "chat"),
        ("cline", "chat"),
        ("kimi-code", "chat"),
        ("pi", "chat"),
        ("qwen-code", "chat"),
    ],
)
async def test_an_agent_is_metered_and_resumed(
    tmp_path: Path, image: str, name: str, model: str
) -> None:
    """A budget ends it after a command that prints other values each time."""
    kind, _ = SERVERS[model]
    strict = kind(partial(says, commands=COMMANDS), reasons=model == "responses")
    task = Task("t", "Write hello into greeting.txt.", "HEAD", "")
    with OpenAIServer(strict) as server:
        made = program(tmp_path, name, model, server, image)
        with pytest.raises(BudgetExhausted):
            await made.run(Limit("attempt", "a", None, 4), task=task)
        paid = len(server.requests)
        outcome = await made.run(task=task)
        sent = len(server.requests)
    assert strict.refused == []
    assert not any(_names_today(made.options.recipe, body) for body in server.requests)
    assert outcome.status == "submitted", outcome.detail
    assert "+hello\n" in outcome.patch
    assert outcome.patch.count("diff --git") == 1
    told = report(outcome)
    assert (told["restarts"], told["answered_from_record"]) == (1, paid)
    assert told["calls"] == sent
    assert made.options.recipe.version in told["agent_version"]
    if told["claimed_usd"] is not None and model == "messages":
        metered = sum(step.cost_usd or 0 for step in made.journal.steps("a"))
        assert told["claimed_usd"] == pytest.approx(metered, rel=0.05)
