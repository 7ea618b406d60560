"""From rows in the lake to the report."""

import json

import pytest

from reports.build import build
from reports.errors import ReportError
from reports.estimates import PairedTable
from reports.types import Cost, Report, ReportCell
from tests.reports.lake_fixture import LakeBuilder


def states(report: Report, arm: str) -> dict[str, int]:
    """Return the number of cells of an arm by state."""
    return {state: n for state, n in report.arm(arm).states.items() if n}


def cell(report: Report, arm: str, instance: str) -> ReportCell:
    """Return the cell of an arm and an instance."""
    return next(c for c in report.cells if (c.arm, c.instance_id) == (arm, instance))


def warnings(report: Report) -> str:
    """Return all warnings as one text."""
    return "\n".join(note.text for note in report.notes if note.level == "warning")


def test_a_complete_run_of_two_arms(two_arms: LakeBuilder) -> None:
    """A complete run has counts, rates, costs, tokens and a paired table."""
    report = build(two_arms.root, "trial")
    quick, careful = report.arms
    assert (quick.name, careful.name) == ("quick", "careful")
    assert (quick.planned, quick.started, quick.resolved, quick.rate) == (4, 4, 2, 0.5)
    assert quick.cost == Cost(usd=2.0, incomplete_cells=0, unpriced_calls=0, is_unmetered=False)
    assert (careful.cost_per_instance, careful.cost_per_resolved) == (1.5, 3.0)
    assert (careful.tokens.input, careful.tokens.cache_read, careful.tokens.output) == (
        400,
        160,
        80,
    )
    assert (careful.mean_calls, careful.mean_duration_s) == (2.0, 10.0)
    (pair,) = report.comparisons
    assert (pair.baseline, pair.candidate, pair.role) == ("quick", "careful", "primary")
    assert pair.table == PairedTable(both=1, only_baseline=1, only_candidate=1, neither=1)
    assert (pair.table.difference, pair.p_value) == (0.0, 1.0)
    assert (pair.cost_ratio, pair.priced_pairs) == (3.0, 4)
    assert (report.audits, report.notes) == ((), ())


def test_simulated_models_and_host_workspaces_are_marked(lake: LakeBuilder) -> None:
    """Simulated models and host workspaces are marked, whether declared or only recorded."""
    lake.declare(["a"], ["i1"], simulated=True)
    lake.declare(["b"], ["i1"])
    lake.cell("b", "i1", provider="simulated", environment="host")
    text = warnings(build(lake.root, "trial"))
    assert "harnesses on a simulated model, not models (arms a and b)" in text
    assert "Host workspaces: no isolation (arm b)" in text


def test_a_comparison_of_different_models_says_so(lake: LakeBuilder) -> None:
    """A warning names the models of both arms if they differ."""
    lake.declare(["a"], ["i1"], model="large", arm_order=0)
    lake.declare(["b"], ["i1"], model="small", arm_order=1)
    assert "a and b have different models (large and small)" in warnings(build(lake.root, "trial"))


def test_the_latest_declaration_sets_the_denominator(lake: LakeBuilder) -> None:
    """The latest declaration applies."""
    lake.declare(["a"], ["i1", "i2"])
    lake.cell("a", "i1")
    lake.cell("a", "i2")
    later = build(lake.root, "trial").source.declared_at.replace(year=2027)
    lake.declare(["a"], ["i1"], declaration_digest="d2", declared_at=later)
    report = build(lake.root, "trial")
    assert (report.arm("a").planned, report.source.declaration_digest) == (1, "d2")
    assert "declared in 2 different ways" in warnings(report)
    assert [(audit.name, audit.rows) for audit in report.audits] == [("undeclared_cell", 1)]


def test_a_chosen_pair_comes_first_and_says_so(lake: LakeBuilder) -> None:
    """A chosen pair comes first, in the requested direction, and a note says so."""
    lake.declare(["a", "b", "c"], ["i1"], primary_baseline="a", primary_candidate="b")
    for arm, cost in (("a", 1.0), ("b", 2.0), ("c", 3.0)):
        lake.cell(arm, "i1", cost_usd=cost)
    report = build(lake.root, "trial", baseline="c", candidate="a")
    first = report.comparisons[0]
    assert (first.baseline, first.role, first.cost_ratio) == ("c", "chosen", 1 / 3)
    assert any("not the declared primary" in note.text for note in report.notes)
    turned = build(lake.root, "trial", baseline="b", candidate="a")
    first = turned.comparisons[0]
    assert (first.baseline, first.role, first.cost_ratio) == ("b", "primary", 1 / 2)
    assert turned.notes == ()
    same = build(lake.root, "trial", candidate="b")
    assert (same.comparisons[0].baseline, same.comparisons[0].role) == ("a", "primary")


@pytest.mark.parametrize(
    ("baseline", "candidate", "message"),
    [
        ("quik", None, "no arm 'quik' in this experiment; did you mean quick"),
        ("quick", "quick", "needs two different arms"),
    ],
)
def test_wrong_arms_are_refused(
    two_arms: LakeBuilder, baseline: str, candidate: str | None, message: str
) -> None:
    """Wrong arms are refused with one line that suggests a correction."""
    with pytest.raises(ReportError, match=message):
        build(two_arms.root, "trial", baseline, candidate)


def test_an_experiment_without_a_declaration_is_refused(lake: LakeBuilder) -> None:
    """An experiment without a declaration, or without planned instances, has no report."""
    lake.cell("a", "i1")
    with pytest.raises(ReportError, match="has no declaration"):
        build(lake.root, "trial")
    lake.declare(["a"], [])
    with pytest.raises(ReportError, match="plans no instance"):
        build(lake.root, "trial")


def test_versions_are_merged_over_attempts(lake: LakeBuilder) -> None:
    """The report lists every version of a package that any attempt used."""
    lake.declare(["a"], ["i1", "i2"])
    for instance, version in (("i1", "1.0"), ("i2", "1.1")):
        lake.cell("a", instance, versions=json.dumps({"tool": version}))
    versions = build(lake.root, "trial").source.versions
    assert versions == {"swebench": "5.0.2", "tool": "1.0, 1.1"}
