"""Programs that misbehave end as an outcome or as infrastructure, with their last words."""

from pathlib import Path
from typing import Any

import pytest

from agent import models
from agent.arms.command.recipe import Recipe
from agent.errors import InfrastructureError, WorkspaceError
from agent.types import Outcome, Task
from tests.agent.arms.command.programs import Program, commands, report, tiny
from tests.agent.arms.conftest import TASK
from tests.servers.openai_server import OpenAIServer, context_window
from tests.servers.providers import Listener
from tests.servers.strict import Anthropic

pytestmark = [pytest.mark.slow]

ASK = (
    'curl -sS -H "Authorization: Bearer $DURABENCH_KEY" '
    '-H "Content-Type: application/json" "$DURABENCH_URL/v1/chat/completions"'
)
HELLO = '{"model": "any", "messages": [{"role": "user", "content": "hi"}]}'
FORCED = '{"messages": [{"role": "user", "content": "hi"}], "tools": [{"type": "web_search"}]}'


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
        ("echo x >greeting.txt; echo done", "exit code 0 before its first model call: done"),
        (f"{ASK} -d '[]'; exit 1", "call; refused: the request is not JSON: not an object: "),
        (
            f"{ASK} -d '{FORCED}'",
            "call; refused: web_search: tools of the provider are not available here: ",
        ),
        (
            f"{ASK.replace('/v1', '')} -d '{HELLO}'",
            "refused: this gateway has no route POST /chat/completions: add /v1 to the base URL; "
            r"unknown: POST /chat/completions \(1x\): .*add /v1 to the base URL",
        ),
        (
            f"{ASK.replace('$DURABENCH_KEY', 'old-key')} -d '{HELLO}'",
            r"refused: .*DURABENCH_KEY.*; unknown: POST /v1/chat/completions without key \(1x\)",
        ),
    ],
)
async def test_a_program_that_never_worked_is_infrastructure(
    tmp_path: Path, script: str, words: str
) -> None:
    """Its recipe has to be changed, so the cell stays open, and one line says why."""
    with pytest.raises(InfrastructureError, match=words):
        await ended(tmp_path, shell(script))


async def test_unknown_routes_are_named_in_the_report(tmp_path: Path) -> None:
    """A program that works can ask for more than the gateway has."""
    more = ASK.replace("chat/completions", "embeddings")
    outcome = await ended(tmp_path, shell(f"{more} -d 1; {more} -d 1; {ASK} -d '{HELLO}'"))
    assert outcome.status == "submitted"
    assert report(outcome)["unknown_routes"] == {"POST /v1/embeddings": 2}


async def test_a_conversation_that_is_too_long_is_an_outcome(tmp_path: Path) -> None:
    """No change of the recipe makes the task shorter."""
    with OpenAIServer(lambda body: context_window()) as server:
        model = {"name": "openai/gpt-4o", "api_base": server.url}
        outcome = await Program(tmp_path, shell(f"{ASK} -d '{HELLO}'"), model).run()
    assert (outcome.status, report(outcome)["calls"]) == ("gave_up", 0)


async def test_a_program_can_read_the_limits_of_its_model(tmp_path: Path) -> None:
    """A program that shortens its own conversation has to know where the window ends."""
    script = 'echo "$DURABENCH_CONTEXT $DURABENCH_MAX_OUTPUT"'
    model = {"name": "openai/local", "api_base": "http://127.0.0.1:9/v1", "context_tokens": 8192}
    with pytest.raises(InfrastructureError, match=": 8192 2048"):
        await Program(tmp_path, shell(script), model).run()


async def test_a_restarted_program_keeps_the_window_that_its_server_stated(tmp_path: Path) -> None:
    """It repeats its requests, also if the server was started with another window."""
    script = 'echo "window $DURABENCH_CONTEXT"'
    listeners = [Listener(models={"data": [{"id": "m", "n_ctx": n}]}) for n in (8192, 4096)]
    declared = [{"name": "openai/m", "api_base": f"{each.address}/v1"} for each in listeners]
    program = Program(tmp_path, shell(script), declared[0])
    try:
        for model in declared:
            program.model = models.build(models.parse(model), TASK, 0)
            with pytest.raises(InfrastructureError, match="window 8192"):
                await program.run()
    finally:
        for listener in listeners:
            listener.close()


async def test_a_program_that_runs_for_ever_ends_with_its_change_so_far(tmp_path: Path) -> None:
    script = f"{ASK} -d '{HELLO}'; echo hello >greeting.txt; sleep 1000"
    outcome = await ended(tmp_path, shell(script), run_limit_s=2)
    assert outcome.status == "out_of_time"
    assert "+hello" in outcome.patch


async def test_a_program_that_fails_after_a_call_gives_up(tmp_path: Path) -> None:
    outcome = await ended(tmp_path, shell(f"{ASK} -d '{HELLO}'; echo oops; exit 7"))
    assert outcome.status == "gave_up"
    assert outcome.detail.startswith("exit code 7: ")
    assert outcome.detail.endswith("oops")


@pytest.mark.parametrize(("name", "number"), [("KILL", 9), ("TERM", 15)])
async def test_a_killed_program_is_started_again(tmp_path: Path, name: str, number: int) -> None:
    """After three restarts without a new answer, it is not. A later run may try again."""
    recipe = shell(f"{ASK} -d '{HELLO}'; kill -{name} $$")
    program = Program(tmp_path, recipe, {"provider": "scripted", "replies": ["one"]})
    for start in range(5):
        with pytest.raises(WorkspaceError, match=f"killed by signal {number}") as killed:
            await program.run()
        assert killed.value.retryable == (start < 4), "the first start has a new answer"
    assert str(killed.value).endswith(" 3 starts before, without a new answer")
    assert program.journal.account("a").calls_billed == 1
    with pytest.raises(WorkspaceError):
        await program.run()


async def test_the_output_of_a_program_that_failed_is_passed_on_whole(tmp_path: Path) -> None:
    """Its detail is one short line, and its end and its beginning are in the output."""
    script = f"{ASK} -d '{HELLO}'; printf 'first\\n'; seq 100000; echo last; exit 7"
    program = Program(tmp_path, shell(script), {"provider": "scripted", "replies": ["one"]})
    outcome = await program.run()
    [output] = program.outputs
    assert "first\n1\n2\n" in output
    assert output.endswith("\n100000\nlast\n")
    assert "\n" not in outcome.detail


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


async def test_tools_of_the_provider_are_left_out(tmp_path: Path) -> None:
    """The program works without them, and the report counts its requests for them."""
    with OpenAIServer(Anthropic(commands)) as server:
        model = {"name": "anthropic/claude-sonnet-4-5", "api_base": server.url.removesuffix("/v1")}
        outcome = await Program(tmp_path, tiny("messages", "web"), model).run()
    assert outcome.status == "submitted", outcome.detail
    assert [len(body["tools"]) for body in server.requests] == [1] * 4
    assert report(outcome)["server_tools"] == {"web_search_20250305": 4}


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
