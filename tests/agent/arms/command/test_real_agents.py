"""Claude Code, Codex and opencode, unmodified, in containers without network.

They are installed from npm into folders outside the repository, `<folder>/<name>`, and the variable
`DURABENCH_TEST_AGENTS` names that folder:

    npm install --prefix <folder>/claude-code @anthropic-ai/claude-code@<version of the recipe>
"""

import json
import os
from pathlib import Path

import pytest

from agent.arms.command.recipe import Install, load
from agent.errors import BudgetExhausted
from agent.journal import Limit
from agent.types import Task
from tests.agent.arms.command.programs import Program, report
from tests.agent.arms.command.test_in_docker import Containers
from tests.servers.openai_server import OpenAIServer
from tests.servers.strict import Anthropic, Asked, Called, Chat, Dialect, Responses, Said

FOLDER = os.environ.get("DURABENCH_TEST_AGENTS", "")

pytestmark = [pytest.mark.docker, pytest.mark.full, pytest.mark.slow]

COMMANDS = ["ls", "printf 'hello\\n' > greeting.txt", "cat greeting.txt"]
TOOLS = {"Bash": "command", "bash": "command", "shell_command": "command", "exec_command": "cmd"}
SERVERS: dict[str, tuple[type[Dialect], dict[str, object]]] = {
    "chat": (Chat, {"name": "openai/gpt-4o"}),
    "messages": (Anthropic, {"name": "anthropic/claude-sonnet-4-5"}),
    "responses": (Responses, {"name": "openai/gpt-4o", "api": "responses"}),
}


def says(asked: Asked) -> Said:
    """Give one command after the other to the program's own shell tool, and then end."""
    tool = next((name for name in asked.tools if name in TOOLS), None)
    if tool is None or asked.turns >= len(COMMANDS):
        return Said("Done.")
    arguments = {TOOLS[tool]: COMMANDS[asked.turns], "description": "Run a command."}
    if tool == "exec_command":
        del arguments["description"]
    return Said("I work.", (Called(tool, json.dumps(arguments), f"call_{asked.turns}"),))


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "throw-away")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "throw-away")


def program(tmp_path: Path, name: str, model: str, server: OpenAIServer, image: str) -> Program:
    folder = Path(FOLDER) / name
    if not FOLDER or not folder.is_dir():
        pytest.skip(f"{name} is not installed: see DURABENCH_TEST_AGENTS")
    recipe = load(name).model_copy(update={"install": Install(folder=folder)})
    base = server.url.removesuffix("/v1") if model == "messages" else server.url
    spec = {**SERVERS[model][1], "api_base": base}
    made = Program(tmp_path, recipe, spec, run_limit_s=200)
    made.workspaces = Containers(image)
    return made


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
    ],
)
async def test_an_agent_is_metered_and_resumed(
    tmp_path: Path, image: str, name: str, model: str
) -> None:
    """A budget ends it in the middle. The next run gets the paid answers from the record, and
    calls, tokens and cost equal what the server counted."""
    kind, _ = SERVERS[model]
    strict = kind(says, reasons=model == "responses")
    task = Task("t", "Write hello into greeting.txt.", "HEAD", "")
    with OpenAIServer(strict) as server:
        made = program(tmp_path, name, model, server, image)
        with pytest.raises(BudgetExhausted):
            await made.run(Limit("attempt", "a", None, 2), task=task)
        paid = len(server.requests)
        outcome = await made.run(task=task)
        sent = len(server.requests)
    assert strict.refused == []
    assert outcome.status == "submitted", outcome.detail
    assert "+hello\n" in outcome.patch
    told = report(outcome)
    assert (told["restarts"], told["answered_from_record"]) == (1, paid)
    assert told["calls"] == sent
    assert load(name).version in told["agent_version"]
    if told["claimed_usd"] is not None and model == "messages":
        metered = sum(step.cost_usd or 0 for step in made.journal.steps("a"))
        assert told["claimed_usd"] == pytest.approx(metered, rel=0.05)
