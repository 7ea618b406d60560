"""Budgets of the durable arm hold while two candidates make calls at the same time."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from agent import models
from agent.models.protocol import ModelReply, ModelRequest, Usage
from agent.types import Task
from flows.benchmark import benchmark
from flows.display.errors import IncompleteRun
from flows.experiments.declaration import Experiment
from flows.storage.journals import open_journal
from flows.storage.lake import Lake
from tests.durability.first_wrong import TWINS, FirstWrong
from tests.flows.conftest import trial

pytestmark = [
    pytest.mark.usefixtures("prefect"),
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.sampled(6),
]

LATENCY_S = 0.2
"""Latency of an answer, so that the calls of two candidates overlap."""


@dataclass
class Meter:
    """Calls and cost as the provider sees them, independent of any journal."""

    sent: Counter[tuple[str, int]] = field(default_factory=Counter)
    """Calls by scope and number within it, in the order of arrival."""
    spent_usd: float = 0.0
    open_usd: float = 0.0
    """The most that the calls in flight can cost."""
    highest_usd: float = 0.0
    """The highest sum of spent and open cost."""

    def begin(self, request: ModelRequest) -> None:
        self.sent[request.scope, request.number] += 1
        self.open_usd += ceiling_usd(request)
        self.highest_usd = max(self.highest_usd, self.spent_usd + self.open_usd)

    def end(self, request: ModelRequest) -> None:
        self.open_usd -= ceiling_usd(request)
        self.spent_usd += price_usd(request.number)

    def taken(self) -> "Meter":
        """Return the counts so far and reset them."""
        before = replace(self)
        self.sent, self.spent_usd, self.highest_usd = Counter(), 0.0, 0.0
        return before

    def until_half_of_the_twins(self) -> list[tuple[str, int]]:
        """Return the calls before the two candidates, and half of the candidates' calls."""
        places = list(self.sent)
        theirs = [at for at, (scope, _) in enumerate(places) if scope.startswith(TWINS)]
        return places[: theirs[len(theirs) // 2]]


def price_usd(number: int) -> float:
    """Return the price of a call. Later calls of a conversation cost more."""
    return 0.01 * (number + 1)


def ceiling_usd(request: ModelRequest) -> float:
    """Return the most that a call could cost."""
    return 2 * price_usd(request.number)


class MeteredModel(FirstWrong):
    """A model that answers every role and charges its price."""

    def __init__(self, task: Task, meter: Meter) -> None:
        super().__init__(task)
        self._meter = meter

    def ceiling_usd(self, request: ModelRequest) -> float:
        return ceiling_usd(request)

    async def complete(self, request: ModelRequest) -> ModelReply:
        self._meter.begin(request)
        await asyncio.sleep(LATENCY_S)
        reply = await super().complete(request)
        self._meter.end(request)
        usage = Usage(1, 0, 0, 1, 0, price_usd(request.number))
        return replace(reply, usage=usage, cost_source="declared")


@contextmanager
def metered() -> Iterator[Meter]:
    """Yield the meter of every model that is built during the block."""
    counted = Meter()
    with pytest.MonkeyPatch.context() as patch:
        build = lambda spec, task, seed, admit: MeteredModel(task, counted)  # noqa: E731
        patch.setattr(models, "build", build)
        yield counted


@pytest.fixture
def meter() -> Iterator[Meter]:
    """Yield the meter of every model that the test uses."""
    with metered() as counted:
        yield counted


def declared(**budget: Any) -> Experiment:
    """Return an experiment with one attempt, with a budget if one is given."""
    options = {"profile": {"preset": "full"}}
    model = {
        "name": "openai/metered",
        "api_base": "http://stand-in.invalid/v1",  # needs no key
        "input_cost_per_token": 1e-6,
        "output_cost_per_token": 1e-5,
    }
    arms = [{"name": "d", "agent": "durable", "model": model, "options": options}]
    budgets = {"budgets": {"attempt": budget}} if budget else {}
    ids = ["durabench__slotwise-2"]
    return trial(arms=arms, select={"ids": ids}, primary=None, **budgets)


def rows(lake_path: str, table: str) -> list[dict[str, Any]]:
    lake = Lake.existing(lake_path)
    return [row for unit in lake.units(table, "*") for row in lake.find(table, unit)]


async def finished(experiment: Experiment, lake_path: str) -> dict[str, Any]:
    """Run the experiment to its end. Return its outcome, figures and patch."""
    await benchmark(experiment, lake_path, grade=False)
    [attempt], [prediction] = rows(lake_path, "attempts"), rows(lake_path, "predictions")
    return {
        "outcome": attempt["outcome"],
        "calls": attempt["model_calls"],
        "cost": round(attempt["cost_usd"], 9),
        "billed": round(attempt["billed_usd"], 9),
        "patch": prediction["model_patch"],
    }


async def stopped(experiment: Experiment, lake_path: str) -> None:
    """Run the experiment until its budget stops it, without a prediction."""
    with pytest.raises(IncompleteRun, match="stopped by a budget"):
        await benchmark(experiment, lake_path, grade=False)
    assert [row["outcome"] for row in rows(lake_path, "attempts")] == ["budget_stop"]
    assert rows(lake_path, "predictions") == []


@pytest.fixture(scope="module")
def undisturbed(
    prefect: None, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Any], Meter]:
    """Run the attempt without a budget. Return its results and its calls."""
    folder = str(tmp_path_factory.mktemp("undisturbed"))
    with metered() as counted:
        return asyncio.run(finished(declared(), folder)), counted.taken()


async def test_a_budget_in_usd_is_never_exceeded_and_a_larger_one_resumes(
    meter: Meter, lake_path: str, undisturbed: tuple[dict[str, Any], Meter]
) -> None:
    """A budget that runs out between two candidates is not exceeded, calls in flight included. A
    larger one resumes the attempt."""
    expected, whole = undisturbed
    usd = sum(price_usd(number) for _, number in whole.until_half_of_the_twins())

    await stopped(declared(usd=usd), lake_path)
    assert round(meter.highest_usd, 9) <= round(usd, 9)
    bought = Counter(scope.startswith(TWINS) for scope, _ in meter.sent)
    assert 0 < bought[True] < sum(scope.startswith(TWINS) for scope, _ in whole.sent)

    assert await finished(declared(usd=2 * whole.spent_usd), lake_path) == expected
    assert meter.sent == whole.sent
    assert set(meter.sent.values()) == {1}


async def test_a_budget_in_calls_is_used_up_and_a_larger_one_resumes(
    meter: Meter, lake_path: str, undisturbed: tuple[dict[str, Any], Meter]
) -> None:
    """Exactly the calls of the budget are made, however often it is run. A larger one resumes the
    attempt."""
    expected, whole = undisturbed
    calls = len(whole.until_half_of_the_twins())

    await stopped(declared(calls=calls), lake_path)
    assert meter.sent.total() == calls
    await stopped(declared(calls=calls), lake_path)
    assert meter.sent.total() == calls
    [attempt] = rows(lake_path, "attempts")
    assert open_journal(Lake.existing(lake_path)).account(attempt["attempt_id"]).calls_billed == (
        calls
    )

    assert await finished(declared(calls=whole.sent.total()), lake_path) == expected
    assert meter.sent == whole.sent
    assert set(meter.sent.values()) == {1}
