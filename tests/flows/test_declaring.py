"""What an experiment declares of its analysis, from the file over the lake to the report."""

from typing import Any

import pytest

from flows import reporting
from flows.benchmark import benchmark
from flows.experiment import Experiment
from flows.lake import Lake
from tests.flows.conftest import trial

pytestmark = [pytest.mark.usefixtures("prefect"), pytest.mark.slow]

PRIMARY = {"baseline": "null", "candidate": "gold"}
FAMILY = [{"baseline": "gold", "candidate": "again"}]


def controls(**declared: Any) -> Experiment:
    """One instance on the host, solved without any model."""
    arms = [{"name": name, "agent": name} for name in ("gold", "null")]
    arms.append({"name": "again", "agent": "gold"})
    return trial(select={"sample": 1}, arms=arms, **declared)


async def test_a_plan_is_declared_with_the_experiment_and_cannot_be_changed_later(
    lake_path: str,
) -> None:
    """A margin and a family that come after the results are told at the top and not used."""
    lake = Lake.existing(lake_path)
    await benchmark(controls(primary=PRIMARY), lake_path)
    before = reporting.read(lake, "trial")
    assert before.comparisons[0].role == "primary"
    attempts = lake.units("attempts", "*")

    await benchmark(controls(primary={**PRIMARY, "margin": 0.2}, family=FAMILY), lake_path)
    assert lake.units("attempts", "*") == attempts
    latest = lake.latest_unit("experiments", "trial")
    [row] = lake.read("experiments", "trial", "gold", latest)
    assert (row["primary_margin"], row["family"]) == (0.2, FAMILY)
    after = reporting.read(lake, "trial")
    assert after.notes[0].text.startswith(
        "The declared comparisons were changed after results existed."
    )
    assert (after.source.plan, after.non_inferiority) == (before.source.plan, None)
    assert [pair.role for pair in after.comparisons] == ["primary", "exploratory", "exploratory"]


async def test_a_plan_that_stood_before_the_run_is_followed(lake_path: str) -> None:
    """However often it is run again, and with other things changed."""
    declared = {"primary": {**PRIMARY, "margin": 0.2}, "family": FAMILY}
    for concurrency in (1, 2):
        await benchmark(controls(**declared, concurrency=concurrency), lake_path)
    report = reporting.read(Lake.existing(lake_path), "trial")
    assert {pair.role for pair in report.comparisons} == {"primary", "declared", "exploratory"}
    assert report.source.later_plans == ()
    assert report.non_inferiority is not None
    assert report.non_inferiority.margin == 0.2
