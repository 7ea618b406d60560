"""All pairs of arms: adjusted p-values against their definitions, and the page of one pair."""

import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import false_discovery_control
from statsmodels.stats.multitest import multipletests

from reports.analysis.paired import read_comparisons
from reports.build import build
from reports.relations import open_marts
from reports.statistics.families import benjamini_hochberg, holm
from reports.statistics.paired import PairedTest, paired_table, single_leads
from reports.types import AnalysisPlan
from tests.reports.lake_fixture import LakeBuilder, attempt_row, evaluation_row
from tests.reports.shown import section

pytestmark = pytest.mark.sampled(4)

P_VALUES = st.lists(st.floats(0, 1), min_size=1, max_size=30)


@given(P_VALUES)
def test_discoveries_are_those_of_statsmodels(values: list[float]) -> None:
    """Benjamini and Hochberg's p-values equal those of statsmodels, also with ties."""
    expected = multipletests(values, method="fdr_bh")[1]
    assert benjamini_hochberg(values) == pytest.approx(list(expected))


@given(P_VALUES)
def test_holm_is_its_definition(values: list[float]) -> None:
    """The k-th smallest of m p-values counts m - k + 1 times, and no less than those before it."""
    ranked = sorted(range(len(values)), key=lambda i: values[i])
    expected, largest = [0.0] * len(values), 0.0
    for step, i in enumerate(ranked):
        largest = max(largest, min(1.0, (len(values) - step) * values[i]))
        expected[i] = largest
    assert holm(values) == pytest.approx(expected)


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan")])
def test_a_p_value_is_a_share(value: float) -> None:
    """Values outside [0, 1] are refused."""
    with pytest.raises(ValueError, match="between 0 and 1"):
        benjamini_hochberg([0.5, value])


def fill(lake: LakeBuilder, arms: dict[str, float], instances: int) -> dict[str, list[bool]]:
    """Write arms that resolve about these shares of the instances, one file per arm and table."""
    draw = random.Random(11)
    names = [f"i{n:03}" for n in range(instances)]
    lake.declare(list(arms), names)
    hardness = [draw.random() for _ in names]
    verdicts = {}
    for arm, rate in arms.items():
        solved = [0.7 * hard + 0.3 * draw.random() < rate for hard in hardness]
        ids = [f"{arm}-{name}" for name in names]
        no_calls = {"model_calls": 0, "cost_usd": 0.0}
        lake.write(
            "attempts",
            arm,
            [
                attempt_row(attempt_id=i, instance_id=name, **no_calls)
                for i, name in zip(ids, names, strict=True)
            ],
        )
        lake.write(
            "evaluations",
            arm,
            [
                evaluation_row(
                    attempt_id=i,
                    instance_id=name,
                    outcome="resolved" if one else "unresolved",
                    resolved=one,
                )
                for i, name, one in zip(ids, names, solved, strict=True)
            ],
        )
        verdicts[arm] = solved
    return verdicts


def test_every_pair_has_p_values_over_all_pairs(lake: LakeBuilder) -> None:
    """The adjusted p-values of a lake are those of its tables."""
    verdicts = fill(lake, {"a": 0.3, "b": 0.5, "c": 0.55, "d": 0.0}, 60)
    comparisons = build(lake.root, "trial").comparisons
    raw = []
    for pair in comparisons:
        sides = list(zip(verdicts[pair.baseline], verdicts[pair.candidate], strict=True))
        table = paired_table(*zip(*sides, strict=True))
        raw.append(PairedTest(table, single_leads(table)).p_value())
    assert [pair.p_value for pair in comparisons] == pytest.approx(raw)
    assert [pair.false_discovery_p_value for pair in comparisons] == pytest.approx(
        false_discovery_control(raw)
    )
    assert [pair.holm_p_value for pair in comparisons] == pytest.approx(holm(raw))
    assert all(pair.role == "exploratory" for pair in comparisons)


def test_controls_are_no_part_of_the_search(lake: LakeBuilder) -> None:
    """A pair with a control has no p-value over all pairs, and does not make others larger."""
    lake.declare(["a", "b"], ["i1", "i2"])
    lake.write(
        "experiments",
        "gold",
        [{**_gold(), "instance_ids": ["i1", "i2"]}],
    )
    for arm in ("a", "b", "gold"):
        lake.cell(arm, "i1", "resolved" if arm != "a" else "unresolved")
    found = {(p.baseline, p.candidate): p for p in build(lake.root, "trial").comparisons}
    assert found["a", "b"].holm_p_value == found["a", "b"].p_value
    assert found["a", "gold"].holm_p_value is None
    assert found["b", "gold"].false_discovery_p_value is None


def _gold() -> dict[str, object]:
    from tests.reports.lake_fixture import ORDINARY

    columns = {**ORDINARY["experiments"], "agent": "gold", "arm_order": 2}
    columns.pop("arm")
    return columns


def test_the_declared_family_stays_as_it_is(lake: LakeBuilder) -> None:
    """The family's own correction does not depend on the number of other arms."""
    fill(lake, {"a": 0.3, "b": 0.6, "c": 0.6, "d": 0.6}, 40)
    plan = AnalysisPlan(primary=("a", "b"))
    connection = open_marts(lake.root, "trial")
    try:
        first, *others = read_comparisons(connection, ("a", "b"), "primary", plan)
    finally:
        connection.close()
    assert first.adjusted_p_value == first.p_value
    assert first.holm_p_value is not None
    assert first.holm_p_value > first.p_value
    assert {pair.adjusted_p_value for pair in others} == {None}


def test_the_report_of_a_pair_has_its_arms_only(lake: LakeBuilder) -> None:
    """A report of two arms alone keeps the p-values over all pairs and drops the other arms."""
    fill(lake, {"a": 0.2, "b": 0.5, "c": 0.7}, 30)
    whole = build(lake.root, "trial")
    alone = build(lake.root, "trial", "b", "c", alone=True)
    (pair,) = alone.comparisons
    assert (pair.baseline, pair.candidate, pair.role) == ("b", "c", "chosen")
    of_all = next(p for p in whole.comparisons if (p.baseline, p.candidate) == ("b", "c"))
    assert pair.holm_p_value == of_all.holm_p_value
    assert {arm.name for arm in alone.arms} == {"b", "c"}
    assert {cell.arm for cell in alone.cells} == {"b", "c"}
    assert {one.arm for one in alone.failures} <= {"b", "c"}
    [table] = section(alone, "spending").tables
    assert {row[0] for row in table.rows} == {"b", "c"}


@pytest.mark.slow
def test_all_pairs_of_123_arms_take_seconds(lake: LakeBuilder) -> None:
    """All 7,503 pairs over 500 instances are compared within 5 s of processor time."""
    draw = random.Random(1)
    fill(lake, {f"arm-{n:03}": draw.random() for n in range(123)}, 500)
    connection = open_marts(lake.root, "trial")
    try:
        before = time.process_time()
        found = read_comparisons(connection, None, "exploratory", AnalysisPlan())
        assert time.process_time() - before < 5
    finally:
        connection.close()
    assert len(found) == 123 * 122 // 2
