"""Programs that are started again: what is answered from the record, and what is bought."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.errors import (
    BudgetExhausted,
    InfrastructureError,
    ModelError,
    WorkspaceError,
)
from agent.journal import Limit
from tests.agent.arms.command.programs import Program, commands, report, tiny
from tests.servers import openai_server as api
from tests.servers.openai_server import OpenAIServer
from tests.servers.strict import Anthropic, Asked, Called, Chat, Said

pytestmark = [pytest.mark.slow]

LOSE = """\
[[ $HOME == */durabench-*/home ]] && rm -rf -- "${HOME%/home}"
kill -KILL $(grep -lszxF -- "$WORKSPACE_MARK" /proc/[0-9]*/cmdline | cut -d/ -f3) 2>/dev/null
kill -KILL 0
"""
"""A command that removes its workspace, and ends its shell and itself.

One command ends the shell and its forks: if a fork is lost first, the shell ends this command.
"""

MODEL = {"name": "anthropic/claude-sonnet-4-5", "max_retries": 0}


def model(server: OpenAIServer) -> dict[str, Any]:
    return {**MODEL, "api_base": server.url.removesuffix("/v1")}


def dies_at(turn: int) -> Callable[[Asked], Said]:
    """Return replies that end the program, together with the run, in one turn of the first run."""
    died: list[int] = []

    def says(asked: Asked) -> Said:
        if asked.turns == turn and not died:
            died.append(turn)
            raise ConnectionError
        return commands(asked)

    return says


class Failing:
    """A script of the server that drops the connection where the replies fail."""

    def __init__(self, strict: Anthropic | Chat) -> None:
        self._strict = strict

    def __call__(self, body: dict[str, Any]) -> api.Reply:
        try:
            return self._strict(body)
        except ConnectionError:
            return api.dropped()


@pytest.mark.parametrize("turn", [0, 2])
async def test_a_restart_buys_nothing_twice(tmp_path: Path, turn: int) -> None:
    """The program starts again from the base commit, and recorded answers come from the record."""
    with OpenAIServer(Failing(Anthropic(dies_at(turn)))) as server:
        recipe = tiny("messages", "stream", volatile=["metadata"])
        program = Program(tmp_path, recipe, model(server))
        with pytest.raises(ModelError):
            await program.run()
        outcome = await program.run()
        assert len(server.requests) == 5, "the lost request is sent again, and no other"
    assert outcome.status == "submitted"
    assert outcome.patch.endswith("-goodbye\n+hello\n")
    told = report(outcome)
    assert (told["restarts"], told["answered_from_record"], told["calls"]) == (1, turn, 4)
    assert told["unused_calls"] == []


async def test_a_finished_run_is_replayed_without_the_program(tmp_path: Path) -> None:
    """Once the run is recorded, neither the program nor its model is needed again."""
    with OpenAIServer(Chat(commands)) as server:
        program = Program(tmp_path, tiny("chat"), {"name": "openai/gpt-4o", "api_base": server.url})
        first = await program.run()
    assert await program.run() == first
    assert report(first)["restarts"] == 0


async def test_a_program_that_hangs_up_in_an_answer_and_repeats_its_request_pays_once(
    tmp_path: Path,
) -> None:
    """The answer of a stream that was cut answers the repetition, and the report counts it."""

    def long(asked: Asked) -> Said:
        said = commands(asked)
        return Said("I work. " * 2**20 if asked.turns == 1 else said.text, said.calls)

    with OpenAIServer(Chat(long)) as server:
        spec = {"name": "openai/gpt-4o", "api_base": server.url}
        outcome = await Program(tmp_path, tiny("chat", "stream", "cut"), spec).run()
        assert len(server.requests) == 4
    assert outcome.status == "submitted", outcome.detail
    assert report(outcome)["cut_streams"] == 1


async def test_a_budget_of_a_cent_ends_the_program_in_the_middle(tmp_path: Path) -> None:
    """No call is sent that could exceed it, and with a larger one only the rest is bought."""

    def says(asked: Asked) -> Said:
        if asked.turns == 12:
            return Said("Done.")
        command = json.dumps({"command": f"echo {asked.turns}"})
        return Said("I work.", (Called("bash", command, f"call_{asked.turns}"),))

    prices = {"input_cost_per_token": 5e-6, "output_cost_per_token": 1e-7}
    with OpenAIServer(Anthropic(says)) as server:
        recipe = tiny("messages", volatile=["metadata"])
        program = Program(tmp_path, recipe, {**model(server), **prices})
        with pytest.raises(BudgetExhausted):
            await program.run(Limit("attempt", "a", 0.01, None))
        sent = len(server.requests)
        spent = program.journal.account("a").billed_usd
        assert 1 < sent < 12
        assert spent == pytest.approx(sent * (100 * 5e-6 + 10 * 1e-7))
        assert spent <= 0.01
        outcome = await program.run(Limit("attempt", "a", 1.0, None))
        assert len(server.requests) == 13
    assert (outcome.status, report(outcome)["answered_from_record"]) == ("submitted", sent)


async def test_a_program_that_is_lost_again_and_again_is_infrastructure(tmp_path: Path) -> None:
    """After three restarts without a new answer, nothing is started. A later run may try again."""
    recipe = tiny("chat", run=LOSE)
    program = Program(tmp_path, recipe, {"provider": "scripted", "replies": ["x"]})
    for _ in range(4):
        with pytest.raises(WorkspaceError):
            await program.run()
    opened = len(program.workspaces.opened)
    with pytest.raises(InfrastructureError, match="started 4 times and lost each time") as lost:
        await program.run()
    assert not lost.value.retryable
    assert len(program.workspaces.opened) == opened + 1
    with pytest.raises(WorkspaceError):
        await program.run()


async def test_a_third_run_finds_the_answers_of_both_before_it(tmp_path: Path) -> None:
    """The second run continued a conversation whose outputs differ from the record."""

    def says(asked: Asked) -> Said:
        if asked.turns in (2, 4) and asked.turns not in died:
            died.append(asked.turns)
            raise ConnectionError
        if asked.turns == 5:
            return Said("Done.")
        arguments = json.dumps({"command": "echo 3 passed in 0.$(date +%N)s"})
        return Said("I work.", (Called("bash", arguments, f"call_{asked.turns}"),))

    died: list[int] = []
    with OpenAIServer(Failing(Anthropic(says))) as server:
        program = Program(tmp_path, tiny("messages"), model(server))
        for _ in range(2):
            with pytest.raises(ModelError):
                await program.run()
        told = report(await program.run())
    assert (told["restarts"], told["answered_from_record"], told["calls"]) == (2, 4, 6)
    assert told["unused_calls"] == []


async def test_a_call_in_flight_keeps_its_request(tmp_path: Path) -> None:
    """Runs that end at once in a call, as if killed, leave it without an answer."""

    def says(asked: Asked) -> Said:
        if asked.turns in (0, 3) and asked.turns not in died:
            died.append(asked.turns)
            loop.call_soon_threadsafe(runs[-1].cancel)
            raise ConnectionError
        if asked.turns == 4:
            return Said("Done.")
        arguments = json.dumps({"command": "echo 3 passed in 0.$(date +%N)s"})
        return Said("I work.", (Called("bash", arguments, f"call_{asked.turns}"),))

    loop = asyncio.get_running_loop()
    died: list[int] = []
    runs: list[asyncio.Task[Any]] = []
    with OpenAIServer(Failing(Anthropic(says))) as server:
        program = Program(tmp_path, tiny("messages", volatile=["metadata"]), model(server))
        for _ in range(2):
            runs.append(asyncio.create_task(program.run()))
            with pytest.raises(asyncio.CancelledError):
                await runs[-1]
        told = report(await program.run())
    assert (told["restarts"], told["answered_from_record"], told["calls"]) == (2, 3, 5)
    assert told["unused_calls"] == []


@pytest.mark.parametrize(
    ("prints", "found"),
    [("echo 3 passed in 0.$(date +%N)s", 3), ("echo $(date +%N) passed in 0.1s", 2)],
)
async def test_a_repeated_command_may_print_another_duration_and_no_other_number(
    tmp_path: Path, prints: str, found: int
) -> None:
    """The report names what was loosened, what was bought twice, and the first difference."""

    def says(asked: Asked) -> Said:
        if asked.turns == 3 and not died:
            died.append(asked)
            raise ConnectionError
        commands = ["ls", prints, "printf 'hello\\n' > greeting.txt"]
        if asked.turns >= len(commands):
            return Said("Done.")
        arguments = json.dumps({"command": commands[asked.turns]})
        return Said("I work.", (Called("bash", arguments, f"call_{asked.turns}"),))

    died: list[Asked] = []
    with OpenAIServer(Failing(Anthropic(says))) as server:
        recipe = tiny("messages", volatile=["metadata"])
        program = Program(tmp_path, recipe, model(server))
        with pytest.raises(ModelError):
            await program.run()
        told = report(await program.run())
    assert (told["answered_from_record"], len(told["unused_calls"])) == (found, 3 - found)
    if found == 3:
        assert told["loosened"] == [{"call": 3, "kinds": ["duration"]}]
        assert told["first_difference"] is None
    else:
        assert told["loosened"] == []
        assert "passed in" in told["first_difference"]["before"]
        assert told["first_difference"]["before"] != told["first_difference"]["after"]
