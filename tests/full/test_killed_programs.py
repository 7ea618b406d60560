"""Real programs whose run is killed at random calls, in containers without network.

Their model asks for parallel calls, recursive searches and timed tests, as models do.
"""

import random
import shlex
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from eval import instances
from tests.agent.arms.command.from_npm import recipe_from_npm
from tests.agent.arms.command.talking import SERVERS, says
from tests.journeys.command_line import Terminal
from tests.operation.running import kill_all
from tests.servers.openai_server import OpenAIServer, Reply, Script, dropped
from tests.servers.prefect_server import PrefectServer

pytestmark = [
    pytest.mark.docker,
    pytest.mark.slow,
    pytest.mark.timeout(3600),
]

KILLS = 3
SHARE = 0.95
"""Least share of the recorded answers that the last start has to find."""

[INSTANCE] = [
    each for each in instances.load("bundled") if each.instance_id == "durabench__gridprint-1"
]
TIMED_TESTS = "python3 -m pytest --durations=5 --durations-min=0 -p no:cacheprovider 2>&1"
TURNS = [
    ["git log --oneline | head -3", "ls -la", "date; mktemp"],
    ["grep -rn import --include='*.py' .", "grep -rl def . | head -20", "find . -name '*.py'"],
    [TIMED_TESTS],
    ["cat README.md", TIMED_TESTS],
    [f"printf %s {shlex.quote(INSTANCE.patch)} | git apply --whitespace=nowarn -"],
    [TIMED_TESTS, "git diff --stat"],
    ["grep -rn 'def ' --include='*.py' .", "time python3 -c 'print(1 + 1)'"],
    [TIMED_TESTS, "git status --short"],
]

PROGRAMS = {
    "claude-code": "messages",
    "codex": "responses",
    "opencode": "chat",
    "qwen-code": "chat",
    "kimi-code": "chat",
    "pi": "chat",
    "gemini-cli": "gemini",
    "cline": "chat",
    "copilot": "responses",
}
"""Programs, with the dialect of their model's server."""


class Killing:
    """A script that kills the running command instead of some of its answers."""

    def __init__(self, script: Script, calls: set[int]) -> None:
        self._script = script
        self._calls = calls
        self._sent = 0
        self.running: subprocess.Popen[bytes] | None = None

    def __call__(self, body: dict[str, Any]) -> Reply:
        self._sent += 1
        if self._sent in self._calls and self.running is not None:
            kill_all(self.running)
            return dropped()
        return self._script(body)


def declare(name: str, dialect: str, server: OpenAIServer) -> dict[str, Any]:
    recipe = recipe_from_npm(name).model_dump(mode="json", exclude_none=True)
    base = server.url.removesuffix("/v1") if dialect in ("messages", "gemini") else server.url
    model = {**SERVERS[dialect][1], "api_base": base}
    if dialect == "responses":  # Copilot sends a reasoning effort
        model["name"] = "openai/gpt-5-mini"
    return {
        "name": "killed",
        "dataset": "bundled",
        "select": {"ids": [INSTANCE.instance_id]},
        "environment": "docker",
        "model": model,
        "arms": [{"name": name, "agent": "command", "options": {"recipe": recipe}}],
    }


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_killed_program_finds_its_answers(
    name: str, tmp_path: Path, prefect_server: PrefectServer
) -> None:
    """SIGKILL of the run and all its processes at random calls: the same command goes on, and the
    program finds its recorded answers although its commands print other values."""
    dialect = PROGRAMS[name]
    keys = dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"), "throw-away")
    terminal = Terminal(tmp_path, {"PREFECT_API_URL": prefect_server.url, **keys}, limit_s=600)
    kind, _ = SERVERS[dialect]
    strict = kind(partial(says, commands=TURNS), reasons=dialect == "responses")
    # A killed call is asked for again, so that there is one request more after each kill.
    calls = {at + number for number, at in enumerate(sorted(random.sample(range(2, 10), KILLS)))}
    print(f"{name}: killed at requests {sorted(calls)}")
    killing = Killing(strict, calls)
    with OpenAIServer(killing) as server:
        file = terminal.write("killed.yaml", declare(name, dialect, server))
        for _ in range(KILLS):
            killing.running = terminal.begin("run", file)
            assert killing.running.wait(600) != 0
        killing.running = None
        terminal.durabench("run", file)
    [row] = terminal.rows("attempts")
    found, lost = row["answered_from_record"], row["unused_calls"]
    print(f"{name}: {found} of {found + lost} found; {row['loosened_calls']} loosened")
    assert strict.refused == []
    assert row["restarts"] == KILLS
    assert row["outcome"] == "submitted", row["detail"]
    assert "1 of 1" in terminal.durabench("report", "killed")
    assert found / (found + lost) >= SHARE, row["first_difference"]
