"""Reports of three published runs over 500 instances equal independent calculations."""

from itertools import combinations
from pathlib import Path

import pandas as pd
import pytest
from scipy.stats import binom, binomtest

from reports.build import build
from reports.estimates import PairedTable
from reports.types import Report
from tests.reports.lake_fixture import NOON, LakeBuilder, attempt_row, evaluation_row

RUNS = Path(__file__).parents[2] / "notebooks" / "published_runs.csv"


@pytest.fixture(scope="module")
def runs() -> pd.DataFrame:
    """Return one row per model and instance with verdict, cost and calls."""
    return pd.read_csv(RUNS)


@pytest.fixture(scope="module")
def report(runs: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Return the report of the three runs, imported without calls and patches."""
    lake = LakeBuilder(tmp_path_factory.mktemp("lake"))
    lake.declare(list(runs.model.unique()), sorted(runs.instance_id.unique()))
    imported = {"environment": "imported", "started_at": None, "duration_s": None}
    for arm, rows in runs.groupby("model"):
        ids = [{"attempt_id": f"{arm}/{i}", "instance_id": i} for i in rows.instance_id]
        spent = zip(rows.cost_usd, rows.api_calls, strict=True)
        lake.write(
            "attempts",
            str(arm),
            [
                attempt_row(**key, **imported, cost_usd=cost, model_calls=calls)
                for key, (cost, calls) in zip(ids, spent, strict=True)
            ],
        )
        lake.write(
            "evaluations",
            str(arm),
            [
                evaluation_row(
                    **key,
                    **imported,
                    outcome="resolved" if resolved else "unresolved",
                    resolved=resolved,
                )
                for key, resolved in zip(ids, rows.resolved, strict=True)
            ],
        )
    return build(lake.root, "trial")


def test_the_table_has_the_figures_of_its_source(runs: pd.DataFrame, shared_data: Path) -> None:
    """Nothing was left out, added or changed, but for costs of a billionth of a dollar."""
    source = pd.read_parquet(shared_data / "mini_runs" / "verified_three_models.parquet")
    pd.testing.assert_frame_equal(
        runs.assign(mini_version=runs.harness.str.removeprefix("mini-swe-agent "))[source.columns],
        source,
        check_dtype=False,
        rtol=0,
        atol=1e-9,
    )


def test_arms_agree_with_pandas(report: Report, runs: pd.DataFrame) -> None:
    """Counts, sums and means of each arm equal those of pandas."""
    for arm in report.arms:
        rows = runs[runs.model == arm.name]
        assert (arm.planned, arm.resolved) == (len(rows), rows.resolved.sum())
        assert arm.cost.usd == pytest.approx(rows.cost_usd.sum(), rel=1e-12)
        assert arm.cost_per_resolved == pytest.approx(rows.cost_usd.sum() / rows.resolved.sum())
        assert arm.mean_calls == pytest.approx(rows.api_calls.mean())
    assert (report.audits, report.source.declared_at) == ((), NOON.replace(tzinfo=None))


def test_pairs_agree_with_pandas(report: Report, runs: pd.DataFrame) -> None:
    """Paired tables and cost ratios equal those of pandas. Each p-value is between the mid-p and
    the exact p of McNemar's test; below 0.01 it may be larger."""
    wide = runs.pivot_table(
        index="instance_id", columns="model", values="resolved", aggfunc="first"
    )
    cost = runs.groupby("model").cost_usd.sum()
    best, following = runs.groupby("model").resolved.mean().nlargest(2).index
    assert (report.comparisons[0].baseline, report.comparisons[0].candidate) == (following, best)
    assert {frozenset((pair.baseline, pair.candidate)) for pair in report.comparisons} == {
        frozenset(pair) for pair in combinations(runs.model.unique(), 2)
    }
    for pair in report.comparisons:
        a, b = wide[pair.baseline].astype(bool), wide[pair.candidate].astype(bool)
        only_a, only_b = int((a & ~b).sum()), int((~a & b).sum())
        assert pair.table == PairedTable(int((a & b).sum()), only_a, only_b, int((~a & ~b).sum()))
        exact = binomtest(only_a, only_a + only_b).pvalue
        mid = exact - binom.pmf(min(only_a, only_b), only_a + only_b, 0.5)
        assert mid <= pair.p_value <= (exact if exact > 0.01 else exact**0.9)
        assert pair.cost_ratio == pytest.approx(cost[pair.candidate] / cost[pair.baseline])
