"""A stopped attempt begins no further call, and repeats none after it resumes."""

import asyncio
import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from agent.errors import InfrastructureError, Interrupted
from agent.journal import Account
from flows.cells import attempts
from flows.experiments import declaration
from flows.experiments.cells import Cell
from flows.experiments.keys import attempt_key
from flows.experiments.stop import Stop
from flows.server.stopping import graceful_stop
from flows.storage.journals import VARIABLE, open_journal
from flows.storage.lake import Lake
from tests.durability import crashing
from tests.durability.conftest import CountingServer
from tests.servers import openai_server as api
from tests.waiting import until

LATENCY_S = 0.2
LATE_S = 0.5
"""Time after the stop in which a busy machine may still send a request that passed its check."""

PROMPT_S = 1.5
"""Time within which a waiting call notices the stop on a busy machine."""

TURNS = [*["ls"] * 6, "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && cat README.md"]

MOMENTS = [1, 5]
"""Number of requests during or soon after which the stop comes."""


@dataclass
class Counted:
    """A cell whose model is called over HTTP, and the requests that its server got."""

    cell: Cell
    lake: Lake
    began: list[float]
    calls: int
    """Number of calls of the whole attempt."""
    stop: Stop = field(default_factory=Stop)

    async def attempt(self) -> None:
        async with graceful_stop() as self.stop:
            await (await attempts.attempt.fn(self.cell, self.lake, self.stop)).aresult()

    @property
    def account(self) -> Account:
        return open_journal(self.lake).account(attempt_key(self.cell)[:32])


def litellm_cell(server: api.OpenAIServer, *, limits: Any = None, **spec: Any) -> Cell:
    """Return a cell of the mini arm with a model that is called through LiteLLM."""
    model = {"provider": "litellm", "name": "openai/any", "api_base": server.url, **spec}
    made = crashing.cell("host")
    content = made.experiment.model_dump(mode="json")
    content["arms"][0]["model"] = model
    declared = declaration.parse({**content, "rate_limits": limits or {}}, "test")
    return replace(made, experiment=declared, arm=declared.arms[0])


def fenced(command: str) -> api.Reply:
    return api.text(f"```mswea_bash_command\n{command}\n```")


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    monkeypatch.setenv("OPENAI_API_KEY", "throw-away")
    monkeypatch.delenv(VARIABLE, raising=False)
    return Lake.open(tmp_path / "lake")


@pytest.fixture
def durable(lake: Lake, counting: CountingServer, monkeypatch: pytest.MonkeyPatch) -> Counted:
    """Return a cell of the durable arm, which runs candidates concurrently."""
    counting.latency_s = LATENCY_S / 2
    cell = crashing.cell("host", "durable")

    def build(spec: Any, task: Any, seed: int, sending: Any) -> Any:
        return crashing.model_of("durable", counting.url, lambda scope: None, task)

    monkeypatch.setattr(attempts.models, "build", build)
    return Counted(cell, lake, counting.began, 0)


@pytest.fixture(params=["tools", "text"])
def mini(request: pytest.FixtureRequest, lake: Lake) -> Iterator[Counted]:
    """Yield a cell of the mini arm, which works in a separate thread, in each format of actions."""
    native = request.param == "tools"
    script = [api.slow(LATENCY_S, (api.command if native else fenced)(turn)) for turn in TURNS]
    with api.OpenAIServer(api.by_turn(script)) as server:
        cell = litellm_cell(server, native_tools=native)
        yield Counted(cell, lake, server.began, len(TURNS))


async def stop_after(counted: Counted, calls: int, rng: random.Random) -> None:
    """Send this process SIGINT at a random moment around a call, and check that no call follows."""
    work = asyncio.create_task(counted.attempt())
    await until(lambda: len(counted.began) >= calls)
    await asyncio.sleep(rng.uniform(0, 1.5 * LATENCY_S))
    os.kill(os.getpid(), signal.SIGINT)
    stopped_at = time.monotonic()
    with pytest.raises(Interrupted):
        await work
    assert max(counted.began) < stopped_at + LATE_S
    assert len(counted.began) <= calls + 2 * crashing.cell("host").experiment.concurrency
    account = counted.account
    assert account.calls_billed == account.calls_credited == len(counted.began)


@pytest.mark.parametrize("calls", MOMENTS)
async def test_mini_begins_no_call_after_the_stop(mini: Counted, calls: int) -> None:
    """A stopped mini attempt begins no further call, and repeats none when it resumes."""
    await stop_after(mini, calls, random.Random(calls))
    await mini.attempt()
    assert len(mini.began) == mini.account.calls_billed == mini.calls


@pytest.mark.parametrize("calls", [2, 9])
async def test_durable_begins_no_call_after_the_stop(
    durable: Counted, counting: CountingServer, calls: int
) -> None:
    """A stopped durable attempt begins no further call, and repeats none when it resumes."""
    await stop_after(durable, calls, random.Random(calls))
    await durable.attempt()
    assert set(counting.counts.values()) == {1}
    assert len(durable.began) == durable.account.calls_billed


@pytest.mark.parametrize(
    ("first", "limits"),
    [
        (api.rate_limited(retry_after="30"), None),
        (api.error(500, "The server had an error", **{"Retry-After": "30"}), None),
        (None, {"openai": {"requests_per_minute": 1}}),
    ],
    ids=["asked to wait", "backing off", "rate limit"],
)
async def test_a_waiting_call_is_cancelled_at_once(
    first: api.Reply | None, limits: Any, lake: Lake
) -> None:
    """A waiting call is cancelled by the stop."""
    answers = [api.command("ls"), first or api.command("ls")]
    with api.OpenAIServer(api.by_turn(answers)) as server:
        cell = litellm_cell(server, limits=limits)
        counted = Counted(cell, lake, server.began, 0)
        work = asyncio.create_task(counted.attempt())
        journal, attempt_id = open_journal(lake), attempt_key(cell)[:32]
        # The second call is recorded as intended, and it was rejected or is not sent yet.
        await until(lambda: len(journal.steps(attempt_id)) == 3)
        await until(lambda: len(server.began) == (2 if first else 1))
        await asyncio.sleep(0.3)
        asked = time.monotonic()
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(Interrupted):
            await work
        assert time.monotonic() - asked < PROMPT_S
        assert len(server.began) == (2 if first else 1)
    assert counted.account.calls_billed == counted.account.calls_credited == 1
    assert counted.account.billed_usd == counted.account.credited_usd
    assert [step.kind for step in journal.steps(attempt_id)] == ["model", "command"]


async def test_a_stop_that_ends_a_program_of_the_cell_is_no_broken_infrastructure(
    mini: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signal that stops a worker also ends git, which then fails to prepare the workspace."""
    stop = Stop()

    async def ended(*arguments: Any) -> None:
        stop.requested = True
        raise InfrastructureError("git fetch: protocol error")

    monkeypatch.setattr(attempts._LeasedAttempt, "_replay", ended)
    with pytest.raises(Interrupted):
        await (await attempts.attempt.fn(mini.cell, mini.lake, stop)).aresult()
    [row] = mini.lake.rows("attempts", mini.cell.experiment.name)
    assert row["outcome"] == "interrupted"


async def test_a_stop_during_the_intent_of_a_call(
    mini: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stop while the intent of a call is recorded undoes the intent and its reservation."""
    stop = Stop()
    ceiling = "agent.models.litellm_api.LiteLLMModel.ceiling_usd"

    def stopping(*arguments: Any) -> float:
        stop.requested = True
        return 1.0

    monkeypatch.setattr(ceiling, stopping)
    with suppress(Interrupted):
        await (await attempts.attempt.fn(mini.cell, mini.lake, stop)).aresult()
    assert mini.began == []
    assert mini.account == Account(0.0, 0.0, 0, 0, 0)
