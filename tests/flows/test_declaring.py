"""The declared analysis of an experiment, from the file to the report."""

import json
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from eval import instances
from eval.digests import canonical_digest
from flows.benchmark import benchmark
from flows.experiments import declaration, plan
from flows.experiments.declaration import Experiment
from flows.storage import report_files
from flows.storage.lake import Lake
from reports.relations import open_marts, read_rows
from tests.flows.conftest import Finished, trial

pytestmark = [pytest.mark.usefixtures("prefect"), pytest.mark.slow]

PRIMARY = {"baseline": "null", "candidate": "gold"}
FAMILY = [{"baseline": "gold", "candidate": "again"}]


def controls(**declared: Any) -> Experiment:
    """Return an experiment on one instance on the host, solved without any model."""
    arms = [{"name": name, "agent": name} for name in ("gold", "null")]
    arms.append({"name": "again", "agent": "gold"})
    return trial(select={"sample": 1}, arms=arms, **declared)


async def test_a_plan_cannot_be_changed_after_the_results(
    finished: Finished, lake_path: str
) -> None:
    """A margin and a family that are declared after the results are not used, and the first note of
    the report says so."""
    lake = await finished.copy(controls(primary=PRIMARY), lake_path)
    before = report_files.read(lake, "trial")
    assert before.comparisons[0].role == "primary"
    attempts = lake.units("attempts", "*")

    await benchmark(controls(primary={**PRIMARY, "margin": 0.2}, family=FAMILY), lake_path)
    assert lake.units("attempts", "*") == attempts
    latest = lake.latest_unit("experiments", "trial")
    [row] = lake.read("experiments", "trial", "gold", latest)
    assert (row["primary_margin"], row["family"]) == (0.2, FAMILY)
    after = report_files.read(lake, "trial")
    assert after.notes[0].text.startswith(
        "The declared comparisons were changed after results existed."
    )
    assert (after.source.plan, after.non_inferiority) == (before.source.plan, None)
    assert [pair.role for pair in after.comparisons] == ["primary", "exploratory", "exploratory"]


CHANGES: dict[str, Any] = {
    "name": "other",
    "dataset": "elsewhere.jsonl",
    "split": "dev",
    "select": {"ids": ["a__a-1"]},
    "environment": "docker",
    "arms": [{"name": "gold", "agent": "gold"}, {"name": "null", "agent": "null"}],
    "model": "openai/another",
    "repeats": 2,
    "seed": 1,
    "concurrency": 9,
    "evaluation_timeout_s": 7,
    "budgets": {"experiment": {"usd": 5}},
    "execution": "distributed",
    "rate_limits": {"openai": {"requests_per_minute": 10}},
    "network": True,
    "resources": {"memory_gb": 8},
    "images": {"keep_gb": 5, "ahead": 0},
    "preflight": True,
    "audit": True,
    "primary": {**PRIMARY, "margin": 0.2},
    "family": [{"baseline": "again", "candidate": "null"}],
    "stop_when": {"primary": "decided", "alpha": 0.1},
    "willingness_to_pay": 2.5,
    "gates": {"gold": {"resolved": ">= 0.9"}},
}
"""Another value for every field of an experiment."""


DECLARED = sorted(Experiment.model_fields.keys() - declaration.NOT_DECLARED - {"name"})


def changed(*fields: str) -> Experiment:
    """Return the controls with other values of these fields."""
    content = controls(primary=PRIMARY).model_dump(mode="json")
    return Experiment.model_validate({**content, **{field: CHANGES[field] for field in fields}})


@pytest.mark.parametrize("field", sorted(CHANGES))
def test_only_what_defines_an_experiment_is_declared_again(field: str, tmp_path: Path) -> None:
    """Only a change of a field that defines the experiment adds a declaration."""
    lake = Lake.open(tmp_path)
    also = ["environment"] if field == "execution" else []
    for declared in (changed(), changed(field, *also)):
        plan.declare(declared.model_copy(update={"name": "trial"}), [], "host", lake)
    declarations = len(lake.units("experiments", "*", arm="gold"))
    assert declarations == (2 if field in DECLARED else 1)


def test_every_field_is_tried() -> None:
    """`CHANGES` has a value for every field of an experiment."""
    assert CHANGES.keys() == Experiment.model_fields.keys()


def test_repeated_declarations_of_an_earlier_release_are_no_changes(
    tmp_path: Path,
) -> None:
    """Earlier releases declared again after a change of any field. Only changes of fields that
    define the experiment count."""
    lake = Lake.open(tmp_path)
    for number, declared in enumerate([changed(), changed(*declaration.NOT_DECLARED)]):
        earlier(declared, number, lake)
    [row] = read_rows(open_marts(tmp_path, "trial"), "from marts.source")
    assert row["declarations"] == 1
    for number, field in enumerate(DECLARED, 2):
        earlier(changed(field), number, lake)
    [row] = read_rows(open_marts(tmp_path, "trial"), "from marts.source")
    assert row["declarations"] == 1 + len(DECLARED)


def test_the_next_release_does_not_declare_again(tmp_path: Path) -> None:
    """A declaration of an earlier release, with another digest and without new fields, is
    recognised as equal."""
    lake = Lake.open(tmp_path)
    declared = controls(primary=PRIMARY)
    unit = earlier(declared, 0, lake, without={"preflight", "family"})
    for later in (declared, declared.model_copy(update={"concurrency": 9})):
        plan.declare(later, [], "host", lake)
        assert lake.units("experiments", "*", arm="gold") == [unit]
    plan.declare(declared.model_copy(update={"seed": 9}), [], "host", lake)
    assert len(lake.units("experiments", "*", arm="gold")) == 2


def earlier(declared: Experiment, number: int, lake: Lake, without: Collection[str] = ()) -> str:
    """Declare as an earlier release did: with a digest of all fields, and without some of them."""
    content = declared.model_dump(mode="json", exclude=set(without))
    digest = canonical_digest(content)
    at = datetime(2026, 3, 1, 12, number, tzinfo=UTC)
    nothing = instances.dataset_digest([])
    for arm, row in plan.experiment_rows(declared, [], digest, nothing, "host", at):
        unit = f"{at:%Y%m%dT%H%M%S%f}-{digest[:16]}"
        lake.write("experiments", "trial", arm, unit, [{**row, "declaration": json.dumps(content)}])
    return unit
