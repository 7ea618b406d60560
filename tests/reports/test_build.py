"""From rows in the lake to the report."""

import json

import pyarrow.parquet as pq
import pytest

from reports.build import build
from reports.errors import ReportError
from reports.estimates import PairedTable
from reports.types import Cost, Report, ReportCell
from tests.reports.lake_fixture import LakeBuilder

pytestmark = pytest.mark.sampled(6)


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


def test_every_state_of_a_cell(lake: LakeBuilder) -> None:
    """Every planned cell is in exactly one state and in the denominator."""
    names = "resolved unresolved none empty patch_failed timeout infra grading ungraded missing"
    lake.declare(["a"], names.split())
    for outcome in ("resolved", "unresolved", "patch_failed", "timeout"):
        lake.cell("a", outcome, outcome)
    lake.attempt("a", "none", outcome="out_of_steps")
    lake.predict("a", "empty", lake.attempt("a", "empty"), model_patch="\n")
    lake.attempt("a", "infra", outcome="infrastructure", detail="no image")
    lake.cell("a", "grading", "infrastructure")
    lake.predict("a", "ungraded", lake.attempt("a", "ungraded"))
    report = build(lake.root, "trial")
    assert states(report, "a") == {
        "resolved": 1,
        "unresolved": 1,
        "no_patch": 2,
        "patch_failed": 1,
        "timeout": 1,
        "infrastructure": 2,
        "ungraded": 1,
        "missing": 1,
    }
    assert (report.arm("a").planned, report.arm("a").rate) == (10, 0.1)
    assert cell(report, "a", "infra").detail == "no image"
    for told in (
        "Never run: 1 of 10",
        "Not graded yet: 1 of 10",
        "Lost to infrastructure: 2 of 10",
    ):
        assert told in warnings(report)


def test_superseded_attempts_are_counted(lake: LakeBuilder) -> None:
    """A note states how many attempts were superseded by later ones, and their cost."""
    lake.declare(["a"], ["i1"])
    lake.attempt("a", "i1", outcome="infrastructure", cost_usd=0.25)
    lake.cell("a", "i1", later_s=60, cost_usd=1.0)
    report = build(lake.root, "trial")
    arm = report.arm("a")
    assert (arm.cells_tried_again, arm.superseded_attempts, arm.superseded_cost_usd) == (1, 1, 0.25)
    assert any(
        "1 cell tried more than once" in note.text
        and "1 earlier attempt ($0.250) only in what was billed" in note.text
        for note in report.notes
    )


def test_unknown_prices_make_a_cost_a_lower_bound(lake: LakeBuilder) -> None:
    """If a price is unknown, the cost is a lower bound, and the cost ratio excludes the pair."""
    lake.declare(["a", "b"], ["i1", "i2"])
    lake.cell("a", "i1", cost_usd=1.0)
    lake.cell("a", "i2", cost_usd=3.0, unpriced_calls=1)
    for instance in ("i1", "i2"):
        lake.cell("b", instance, cost_usd=2.0)
    report = build(lake.root, "trial")
    assert report.arm("a").cost == Cost(
        usd=4.0, incomplete_cells=1, unpriced_calls=1, is_unmetered=False
    )
    assert report.arm("a").cost.is_lower_bound
    assert (report.comparisons[0].cost_ratio, report.comparisons[0].priced_pairs) == (2.0, 1)
    assert "a: 1 call without a known price in 1 cell" in warnings(report)


def test_a_cost_of_which_nothing_is_known_is_unknown(lake: LakeBuilder) -> None:
    """If no price is known, the cost of an arm is unknown, not zero."""
    lake.declare(["a", "b"], ["i1"])
    lake.cell("a", "i1", cost_usd=None, unpriced_calls=2)
    lake.cell("b", "i1")
    report = build(lake.root, "trial")
    arm = report.arm("a")
    assert (arm.cost.usd, arm.cost_per_instance, arm.cost_per_resolved) == (None, None, None)
    assert arm.cost.is_lower_bound
    assert report.comparisons[0].cost_ratio is None


def test_imports_without_calls_or_cost_are_of_unknown_cost(lake: LakeBuilder) -> None:
    """The cost of imported predictions is unknown, not zero."""
    lake.declare(["theirs"], ["i1"])
    lake.cell("theirs", "i1", model_calls=0, cost_usd=None, environment="imported")
    report = build(lake.root, "trial")
    assert report.arm("theirs").cost == Cost(
        usd=None, incomplete_cells=1, unpriced_calls=0, is_unmetered=False
    )


def test_arms_without_a_model_cost_nothing(lake: LakeBuilder) -> None:
    """An arm without model calls costs nothing, and there is no cost ratio to it."""
    lake.declare(["gold", "a"], ["i1"])
    lake.cell("gold", "i1", model_calls=0, cost_usd=0.0, agent="gold", model="none")
    lake.cell("a", "i1")
    report = build(lake.root, "trial")
    assert report.arm("gold").cost == Cost(
        usd=0.0, incomplete_cells=0, unpriced_calls=0, is_unmetered=False
    )
    assert report.comparisons[0].cost_ratio is None


def test_cost_per_resolved_is_undefined_when_nothing_is_resolved(lake: LakeBuilder) -> None:
    """Without a resolved instance, the cost per resolved instance is None."""
    lake.declare(["a"], ["i1"])
    lake.cell("a", "i1", "unresolved")
    assert build(lake.root, "trial").arm("a").cost_per_resolved is None


def test_repeats_multiply_the_cells(lake: LakeBuilder) -> None:
    """Rates and pairs count each repeat of an instance, and a note explains it."""
    lake.declare(["a", "b"], ["i1", "i2"], repeats=2)
    for arm, outcomes in (("a", "ruru"), ("b", "rrrr")):
        for i, outcome in enumerate(outcomes):
            word = "resolved" if outcome == "r" else "unresolved"
            lake.cell(arm, f"i{1 + i // 2}", word, repeat=i % 2)
    report = build(lake.root, "trial")
    assert (report.arm("a").planned, report.arm("a").resolved) == (4, 2)
    assert report.comparisons[0].table == PairedTable(2, 0, 2, 0)
    assert any("planned 2 times" in note.text for note in report.notes)


def test_an_experiment_that_has_not_begun(lake: LakeBuilder) -> None:
    """Before the first attempt, every cell is missing, and the report can be built."""
    lake.declare(["a", "b"], ["i1", "i2"])
    report = build(lake.root, "trial")
    assert states(report, "a") == {"missing": 2}
    assert report.arm("a").cost_per_instance is None
    assert report.arm("a").mean_calls is None
    assert (report.source.first_attempt, report.source.versions) == (None, {})


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


def test_equal_models_cause_no_warning(two_arms: LakeBuilder) -> None:
    """If both arms have the same model, there is no such warning."""
    assert "different models" not in warnings(build(two_arms.root, "trial"))


def test_the_latest_declaration_sets_the_denominator(lake: LakeBuilder) -> None:
    """The latest declaration applies. A warning states the change.

    An audit lists attempts that it does not plan.
    """
    lake.declare(["a"], ["i1", "i2"])
    lake.cell("a", "i1")
    lake.cell("a", "i2")
    later = build(lake.root, "trial").source.declared_at.replace(year=2027)
    lake.declare(["a"], ["i1"], declaration_digest="d2", declared_at=later)
    report = build(lake.root, "trial")
    assert (report.arm("a").planned, report.source.declaration_digest) == (1, "d2")
    assert "declared in 2 different ways" in warnings(report)
    assert [(audit.name, audit.rows) for audit in report.audits] == [("undeclared_cell", 1)]


def test_every_pair_is_compared_once_and_the_primary_first(lake: LakeBuilder) -> None:
    """Every pair is compared once, the primary one first and in the declared direction.

    The others have the earlier arm as baseline.
    """
    primary = {"primary_baseline": "c", "primary_candidate": "a"}
    lake.declare(["a", "b", "c"], ["i1"], **primary)
    pairs = [(p.baseline, p.candidate, p.role) for p in build(lake.root, "trial").comparisons]
    assert pairs == [
        ("c", "a", "primary"),
        ("a", "b", "exploratory"),
        ("b", "c", "exploratory"),
    ]


def test_without_a_declared_pair_controls_come_last(lake: LakeBuilder) -> None:
    """Without a declared pair, pairs with the control arms `gold` and `null` come last."""
    lake.declare(["gold"], ["i1"], agent="gold")
    for order, arm in enumerate(("a", "b"), start=1):
        lake.write("experiments", arm, [declared_row(lake, arm_order=order)])
    first = build(lake.root, "trial").comparisons[0]
    assert (first.baseline, first.candidate, first.role) == ("a", "b", "exploratory")


def declared_row(lake: LakeBuilder, **columns: object) -> dict[str, object]:
    """Return a row for one more arm of the declaration."""
    path = next((lake.root / "experiments").rglob("*.parquet"))
    return {**pq.ParquetFile(path).read().to_pylist()[0], "agent": "mini", **columns}


def test_a_chosen_pair_comes_first_and_says_so(lake: LakeBuilder) -> None:
    """A chosen pair comes first, in the requested direction, and a note says so.

    The declared comparison keeps its role if its arms are swapped.
    """
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


def test_one_arm_has_nothing_to_compare(lake: LakeBuilder) -> None:
    """The report of a single arm has no comparison."""
    lake.declare(["a"], ["i1"])
    lake.cell("a", "i1")
    assert build(lake.root, "trial").comparisons == ()


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
