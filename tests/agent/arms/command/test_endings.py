"""Programs that misbehave end as an outcome or as infrastructure, with their last words."""

from pathlib import Path
from typing import Any

import pytest

from agent.arms.command.recipe import Recipe
from agent.errors import InfrastructureError
from agent.types import Outcome, Task
from tests.agent.arms.command.programs import Program, commands, report, tiny
from tests.servers.openai_server import OpenAIServer
from tests.servers.strict import Anthropic

pytestmark = [pytest.mark.slow]

ASK = (
    'curl -sS -H "Authorization: Bearer $DURABENCH_KEY" '
    '-H "Content-Type: application/json" "$DURABENCH_URL/v1/chat/completions"'
)
HELLO = '{"model": "any", "messages": [{"role": "user", "content": "hi"}]}'


def shell(script: str) -> Recipe:
    """Return the recipe of a shell script."""
    return Recipe.model_validate({"name": "script", "dialect": "chat", "run": script})


async def ended(folder: Path, recipe: Recipe, **options: Any) -> Outcome:
    model = {"provider": "scripted", "replies": ["one", "two", "three"]}
    return await Program(folder, recipe, model, **options).run()


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo no licence >&2; exit 1", "exit code 1 before its first model call: no licence"),
        ("no-such-program", "is not in this workspace: .*no-such-program"),
    ],
)
async def test_a_program_that_never_worked_is_infrastructure(
    tmp_path: Path, script: str, words: str
) -> None:
    with pytest.raises(InfrastructureError, match=words):
        await ended(tmp_path, shell(script))


async def test_a_program_without_a_model_call_gives_up(tmp_path: Path) -> None:
    """Its change is kept, but it is marked as unmetered."""
    outcome = await ended(tmp_path, shell("echo hello >greeting.txt; echo done"))
    assert (outcome.status, outcome.detail) == ("gave_up", "exit code 0, no model call: done")
    assert outcome.patch
    assert report(outcome)["calls"] == 0


async def test_a_program_can_read_the_limits_of_its_model(tmp_path: Path) -> None:
    """A program that shortens its own conversation has to know where the window ends."""
    script = 'echo "$DURABENCH_CONTEXT $DURABENCH_MAX_OUTPUT" >limits.txt'
    model = {"name": "openai/local", "api_base": "http://127.0.0.1:9/v1", "context_tokens": 8192}
    outcome = await Program(tmp_path, shell(script), model).run()
    assert "+8192 2048" in outcome.patch


@pytest.mark.full
async def test_a_program_that_runs_for_ever_ends_with_its_change_so_far(tmp_path: Path) -> None:
    script = f"{ASK} -d '{HELLO}'; echo hello >greeting.txt; sleep 1000"
    outcome = await ended(tmp_path, shell(script), run_limit_s=2)
    assert outcome.status == "out_of_time"
    assert "+hello" in outcome.patch


@pytest.mark.full
async def test_a_time_limit_of_the_attempt_ends_the_program(tmp_path: Path) -> None:
    program = Program(tmp_path, shell("sleep 1000"), {"provider": "scripted", "replies": ["x"]})
    with pytest.raises(Exception, match="has used its 1 s"):
        await program.run(limit_s=1)


async def test_a_program_that_fails_after_a_call_gives_up(tmp_path: Path) -> None:
    outcome = await ended(tmp_path, shell(f"{ASK} -d '{HELLO}'; echo oops; exit 7"))
    assert outcome.status == "gave_up"
    assert outcome.detail.startswith("exit code 7: ")
    assert outcome.detail.endswith("oops")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("[]", "the request is not JSON: not an object"),
        ('{"model": "x", "messages": 3}', "messages"),
    ],
)
async def test_an_invalid_request_is_refused_and_costs_nothing(
    tmp_path: Path, body: str, words: str
) -> None:
    """The program sees what is wrong, and decides what to do."""
    outcome = await ended(tmp_path, shell(f"{ASK} -d '{body}'; {ASK} -d '{HELLO}'"))
    assert words in report(outcome)["last_words"]
    assert report(outcome)["invalid_requests"] == 1
    assert '"content":"one"' in report(outcome)["last_words"]


@pytest.mark.full
async def test_tools_of_the_provider_are_refused(tmp_path: Path) -> None:
    """The request is not sent, and the report counts it."""
    with OpenAIServer(Anthropic(commands)) as server:
        model = {"name": "anthropic/claude-sonnet-4-5", "api_base": server.url.removesuffix("/v1")}
        outcome = await Program(tmp_path, tiny("messages", "web"), model).run()
        assert server.requests == []
    assert outcome.status == "gave_up"
    assert "refused: 400 false" in outcome.detail
    assert report(outcome)["server_tools"] == {"web_search_20250305": 1}


async def test_the_own_files_of_a_program_are_no_part_of_its_patch(tmp_path: Path) -> None:
    script = f"{ASK} -d '{HELLO}'; mkdir .tiny; echo x >.tiny/log; echo hello >greeting.txt"
    recipe = shell(script).model_copy(update={"own_files": [".tiny"]})
    outcome = await ended(tmp_path, recipe)
    assert ".tiny" not in outcome.patch
    assert "+hello" in outcome.patch


async def test_a_program_that_destroys_the_repository_gives_up(tmp_path: Path) -> None:
    """There is no change to submit, and the detail has its last words."""
    outcome = await ended(tmp_path, shell(f"{ASK} -d '{HELLO}'; rm -rf .git; echo oh no"))
    assert (outcome.status, outcome.patch) == ("gave_up", "")
    assert "oh no" in outcome.detail


LONG = Task("long", "say hello\n" + "x" * 2**18, "HEAD", "")
"""A task with more text than a variable can hold."""


@pytest.mark.full
async def test_a_long_issue_is_in_a_file(tmp_path: Path) -> None:
    """It reaches the program whole."""
    script = f"{ASK} -d '{HELLO}'; wc -c <$DURABENCH_TASK_FILE"
    model = {"provider": "scripted", "replies": ["one"]}
    outcome = await Program(tmp_path, shell(script), model).run(task=LONG)
    assert outcome.detail.endswith(str(len(LONG.statement)))


async def test_a_recipe_without_the_file_says_that_an_issue_is_too_long(tmp_path: Path) -> None:
    """A variable that is cut off or empty would be another task."""
    model = {"provider": "scripted", "replies": ["one"]}
    script = f"{ASK} -d '{HELLO}'; echo $DURABENCH_TASK"
    with pytest.raises(InfrastructureError, match="262154 bytes.*DURABENCH_TASK_FILE"):
        await Program(tmp_path, shell(script), model).run(task=LONG)
