"""Budgets: no call is sent that could exceed one, and a larger budget resumes the attempt."""

from typing import Any

import pytest

from flows.benchmark import benchmark
from flows.display.errors import IncompleteRun
from tests.flows.conftest import rows, trial

pytestmark = [pytest.mark.usefixtures("prefect"), pytest.mark.slow]

ARMS = [
    {"name": "able", "agent": "mini", "model": {"provider": "simulated", "skill": 1}},
    {"name": "unable", "agent": "mini", "model": {"provider": "simulated", "skill": 0}},
]
CONTENT: dict[str, Any] = {"arms": ARMS, "select": {"sample": 1}}


def results(lake_path: str) -> dict[str, Any]:
    """Return calls, outcome and patch by attempt."""
    patches = {row["attempt_id"]: row["model_patch"] for row in rows(lake_path, "predictions")}
    return {
        row["attempt_id"]: (row["model_calls"], row["outcome"], patches.get(row["attempt_id"]))
        for row in rows(lake_path, "attempts")
    }


async def test_a_spent_budget_stops_and_a_larger_one_resumes(
    lake_path: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Cells that a budget stops leave no prediction. With a larger budget they resume and end like
    undisturbed ones."""
    undisturbed = str(tmp_path_factory.mktemp("undisturbed"))
    await benchmark(trial(**CONTENT), undisturbed)
    total = sum(row["billed_usd"] for row in rows(undisturbed, "attempts"))

    with pytest.raises(IncompleteRun, match="stopped by a budget"):
        await benchmark(trial(**CONTENT, budgets={"experiment": {"usd": total / 2}}), lake_path)
    stopped = [row for row in rows(lake_path, "attempts") if row["outcome"] == "budget_stop"]
    assert stopped
    assert sum(row["billed_usd"] for row in rows(lake_path, "attempts")) <= total / 2
    assert {row["attempt_id"] for row in stopped}.isdisjoint(
        row["attempt_id"] for row in rows(lake_path, "predictions")
    )

    await benchmark(trial(**CONTENT, budgets={"experiment": {"usd": total + 0.01}}), lake_path)
    assert results(lake_path) == results(undisturbed)
    assert sum(row["billed_usd"] for row in rows(lake_path, "attempts")) == pytest.approx(total)
