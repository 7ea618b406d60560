"""An attempt that is asked to stop pays for nothing more, and nothing again after it resumes."""

import asyncio
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from agent.errors import Interrupted
from agent.journal import Account
from flows import solve
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

LATENCY_S = 0.2
LATE_S = 0.5
"""How long a request may be on its way that was checked before the stop, on a busy machine."""

PROMPT_S = 1.5
"""Within so long what waits has noticed the stop, on a busy machine."""

TURNS = [*["ls"] * 6, "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && cat README.md"]

MOMENTS = [1, 2, 5]
"""The stop comes while, or soon after, so many requests have been made."""


@dataclass
class Counted:
    """A cell whose model is asked over HTTP, and what its server saw."""

    cell: Cell
    lake: Lake
    began: list[float]
    calls: int
    """How many the whole attempt takes."""
    stop: Stop = field(default_factory=Stop)

    async def attempt(self) -> None:
        async with graceful_stop() as self.stop:
            await solve.attempt.fn(self.cell, self.lake, self.stop)

    @property
    def account(self) -> Account:
        return open_journal(self.lake).account(attempt_key(self.cell)[:32])


def litellm_cell(server: api.OpenAIServer, *, limits: Any = None, **spec: Any) -> Cell:
    """A cell of the mini arm whose model LiteLLM reaches."""
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
    """The durable arm, with candidates at the same time."""
    counting.latency_s = LATENCY_S / 2
    cell = crashing.cell("host", "durable")

    def build(spec: Any, task: Any, seed: int, sending: Any) -> Any:
        return crashing.model_of("durable", counting.url, lambda scope: None, task)

    monkeypatch.setattr(solve.models, "build", build)
    return Counted(cell, lake, counting.began, 0)


@pytest.fixture(params=["tools", "text"])
def mini(request: pytest.FixtureRequest, lake: Lake) -> Iterator[Counted]:
    """The mini arm, which works in a thread of its own, in both ways of asking for a command."""
    native = request.param == "tools"
    script = [api.slow(LATENCY_S, (api.command if native else fenced)(turn)) for turn in TURNS]
    with api.OpenAIServer(api.by_turn(script)) as server:
        cell = litellm_cell(server, native_tools=native)
        yield Counted(cell, lake, server.began, len(TURNS))


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # other threads make it true
            await asyncio.sleep(0.01)


async def stop_after(counted: Counted, calls: int, rng: random.Random) -> None:
    """Send this process SIGINT at some moment around a call, and check what came after that."""
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
    """Nor does carrying it on ask for anything again."""
    await stop_after(mini, calls, random.Random(calls))
    await mini.attempt()
    assert len(mini.began) == mini.account.calls_billed == mini.calls


@pytest.mark.parametrize("calls", [2, 9])
async def test_durable_begins_no_call_after_the_stop(
    durable: Counted, counting: CountingServer, calls: int
) -> None:
    """Nor does carrying it on ask for anything again, whatever its candidates had in flight."""
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
async def test_a_call_that_waits_is_given_up_at_once(
    first: api.Reply | None, limits: Any, lake: Lake
) -> None:
    """It is not sent later either, and what was set aside for it is not billed."""
    answers = [api.command("ls"), first or api.command("ls")]
    with api.OpenAIServer(api.by_turn(answers)) as server:
        cell = litellm_cell(server, limits=limits)
        counted = Counted(cell, lake, server.began, 0)
        work = asyncio.create_task(counted.attempt())
        journal, attempt_id = open_journal(lake), attempt_key(cell)[:32]
        # The second call is announced, and refused or not yet sent.
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


async def test_a_retried_attempt_begins_nothing(mini: Counted) -> None:
    """As when its task is tried again after the stop."""
    stop = Stop()
    stop.requested = True
    with pytest.raises(Interrupted):
        await solve.attempt.fn(mini.cell, mini.lake, stop)
    assert mini.began == []


async def test_a_stop_while_the_call_is_announced(
    mini: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The announcement is taken back, with what it set aside."""
    stop = Stop()
    ceiling = "agent.models.litellm_api.LiteLLMModel.ceiling_usd"

    def stopping(*arguments: Any) -> float:
        stop.requested = True
        return 1.0

    monkeypatch.setattr(ceiling, stopping)
    with suppress(Interrupted):
        await solve.attempt.fn(mini.cell, mini.lake, stop)
    assert mini.began == []
    assert mini.account == Account(0.0, 0.0, 0, 0, 0)
