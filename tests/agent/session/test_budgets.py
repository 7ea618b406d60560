"""Budgets with real prices: how much of them is used, and when a call waits."""

import asyncio
import random
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from agent.errors import BudgetExhausted, Interrupted, OutOfTime
from agent.journal import Attempt, Journal, Limit, NewStep, Reservation
from agent.models.litellm_api import LiteLLMModel, load
from agent.models.protocol import Message, ModelInfo, ModelReply, ModelRequest, Usage
from agent.models.spec import LiteLLMSpec
from agent.session import log
from agent.session.session import Session
from tests.agent.attempts import open_session
from tests.agent.repositories import with_files
from tests.agent.workspaces_on_host import HostWorkspaces

ASK = ModelRequest([{"role": "user", "content": "?"}])
CELLS = 8
RESULT = "    def value(self, name):\n        return self._values.get(name, self.default)\n"


class Spender:
    """A model that charges the listed price of a real model for calls as agents make them."""

    def __init__(self, name: str, seed: int) -> None:
        self._listed = LiteLLMModel(LiteLLMSpec(name=name))
        self.info: ModelInfo = self._listed.info
        self._name = name
        self._chance = random.Random(seed)
        self._cached = 0

    def ceiling_usd(self, request: ModelRequest) -> float | None:
        return self._listed.ceiling_usd(request)

    async def complete(self, request: ModelRequest) -> ModelReply:
        await asyncio.sleep(self._chance.uniform(0, 0.005))
        inputs = sum(len(message["content"]) for message in request.messages) // 4
        wanted = round(self._chance.lognormvariate(6.2, 0.8))
        outputs = min(wanted, request.max_tokens or wanted)
        if request.number == 0:
            self._cached = 0
        new = inputs - self._cached
        litellm = load()
        usage = litellm.Usage(
            prompt_tokens=inputs,
            completion_tokens=outputs,
            prompt_tokens_details={"cached_tokens": self._cached, "cache_creation_tokens": new},
        )
        self._cached = inputs
        cost = sum(litellm.cost_per_token(self._name, usage_object=usage))
        message = {"role": "assistant", "content": "x" * 4 * outputs}
        return ModelReply(message, Usage(inputs, 0, 0, outputs, 0, cost), "litellm", self._name)


class Bought:
    """A journal with attempts that spend until a budget stops them."""

    def __init__(self, folder: Path) -> None:
        self.journal = Journal.open(f"sqlite:///{folder}/journal.sqlite")
        self._folder = folder

    def attempt(
        self, name: str, model: Any, *limits: Limit, **options: Any
    ) -> AbstractAsyncContextManager[Session]:
        self.journal.start(Attempt(name, "exp", "durable", name, 0, "{}"))
        workspaces = HostWorkspaces(with_files({"README.md": "A project.\n"}))
        options |= {"workspaces": workspaces, "limits": limits}
        return open_session(self.journal, self._folder, model, name, **options)

    async def spend(self, name: str, model: Spender, *limits: Limit) -> BudgetExhausted:
        """Hold one conversation after another. Return the error that ended them."""
        async with self.attempt(name, model, *limits) as session:
            for talk in range(1000):
                messages: list[Message] = [{"role": "system", "content": RESULT * 80}]
                scope = session.scope(f"talk-{talk}")
                while sum(len(message["content"]) for message in messages) < 60_000:
                    messages.append({"role": "user", "content": RESULT * 25})
                    try:
                        reply = await scope.call(ModelRequest(list(messages)))
                    except BudgetExhausted as error:
                        return error
                    messages.append(reply.message)
        raise AssertionError("no budget stopped the attempt")

    def already(self, usd: float) -> None:
        """Record calls of an earlier attempt that cost this much."""
        self.journal.start(Attempt("earlier", "exp", "durable", "earlier", 0, "{}"))
        lease = self.journal.acquire("earlier", "w", 300)
        self.journal.intend(lease, NewStep("", 0, "model", "d", b"{}"), Reservation(usd, ()))
        self.journal.record(lease, "", 0, b"{}", cost_usd=usd, duration_s=0, tree=None)
        self.journal.release(lease)


@pytest.fixture
def bought(tmp_path: Path) -> Iterator[Bought]:
    one = Bought(tmp_path)
    yield one
    one.journal.close()


async def test_eight_cells_use_the_budget_of_their_experiment(
    bought: Bought, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cells that compete for the last dollars of an experiment use them up without overspending."""
    monkeypatch.setattr(log, "BUDGET_POLL_S", 0.02)
    limit = Limit("experiment", "exp", 25.0, None)
    bought.already(23.0)
    models = [Spender("anthropic/claude-sonnet-4-5", cell) for cell in range(CELLS)]
    ends = [bought.spend(f"cell-{cell}", model, limit) for cell, model in enumerate(models)]
    await asyncio.gather(*ends)
    usd, _ = bought.journal.spent(limit)
    assert 24.9 <= usd <= 25.0


class Gated:
    """A model that charges a dime of a 40-cent ceiling once the test lets it answer."""

    info = ModelInfo("gated", "scripted")

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.may_answer = asyncio.Event()

    def ceiling_usd(self, request: ModelRequest) -> float:
        return 0.40

    async def complete(self, request: ModelRequest) -> ModelReply:
        self.asked.set()
        await self.may_answer.wait()
        message = {"role": "assistant", "content": "!"}
        return ModelReply(message, Usage(cost_usd=0.10), "declared", "gated")


HALF = Limit("experiment", "exp", 0.50, None)


async def test_a_call_waits_for_calls_in_flight(
    bought: Bought, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call waits while calls in flight reserve the budget, and starts once enough is released."""
    monkeypatch.setattr(log, "BUDGET_POLL_S", 0.01)
    slow, polls = Gated(), asyncio.Queue[float]()

    async def sleep(seconds: float) -> None:
        polls.put_nowait(seconds)
        await asyncio.sleep(seconds)

    async with (
        bought.attempt("a", slow, HALF) as first,
        bought.attempt("b", slow, HALF, sleep=sleep) as second,
    ):
        holding = asyncio.create_task(first.call(ASK))
        await slow.asked.wait()
        waiting = asyncio.create_task(second.call(ASK))
        await polls.get()
        assert bought.journal.spent(HALF) == (0.40, 1)
        slow.may_answer.set()
        await asyncio.gather(holding, waiting)
    assert bought.journal.spent(HALF) == (pytest.approx(0.20), 2)


async def test_a_stop_request_ends_a_wait(bought: Bought, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request to stop ends the wait at once and leaves no intent."""
    slow = Gated()

    async def stopped(seconds: float) -> None:
        raise Interrupted("stopped")

    async with (
        bought.attempt("a", slow, HALF) as first,
        bought.attempt("b", slow, HALF, sleep=stopped) as second,
    ):
        holding = asyncio.create_task(first.call(ASK))
        await slow.asked.wait()
        with pytest.raises(Interrupted):
            await second.call(ASK)
        slow.may_answer.set()
        await holding
    assert bought.journal.steps("b") == []


async def test_a_call_that_times_out_while_waiting_is_not_billed(
    bought: Bought, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call whose time runs out while it waits is recorded as cut off and not billed."""
    monkeypatch.setattr(log, "BUDGET_POLL_S", 0.01)
    slow = Gated()
    over = asyncio.Event()

    async def sleep(seconds: float) -> None:
        if over.is_set():
            slow.may_answer.set()
        await asyncio.sleep(0.3)
        over.set()

    async with (
        bought.attempt("a", slow, HALF) as first,
        bought.attempt("b", slow, HALF, sleep=sleep, limit_s=0.3) as second,
    ):
        holding = asyncio.create_task(first.call(ASK))
        await slow.asked.wait()
        with pytest.raises(OutOfTime):
            await second.call(ASK)
        slow.may_answer.set()
        await holding
    assert bought.journal.account("b").calls_billed == 0
    assert [step.kind for step in bought.journal.steps("b")] == ["limit"]
