"""All pairs of arms: adjusted p-values against their definitions, and the page of one pair."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import false_discovery_control
from statsmodels.stats.multitest import multipletests

from reports.build import build
from reports.statistics.families import benjamini_hochberg, holm
from reports.statistics.paired import PairedTest, count_pairs, single_leads
from tests.reports.lake_fixture import LakeBuilder, attempt_row, evaluation_row

P_VALUES = st.lists(st.floats(0, 1), min_size=1, max_size=30)


@given(P_VALUES)
def test_discoveries_are_those_of_statsmodels(values: list[float]) -> None:
    """Benjamini and Hochberg's p-values equal those of statsmodels, also with ties."""
    expected = multipletests(values, method="fdr_bh")[1]
    assert benjamini_hochberg(values) == pytest.approx(list(expected))


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
        table = count_pairs(*zip(*sides, strict=True))
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
