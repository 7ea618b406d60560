"""The resampled comparison of two arms."""

from contextlib import closing

from reports.analysis.resampled import read_resampled
from reports.estimates import PairedTable
from reports.relations import open_marts
from reports.statistics.bootstrap import Bootstrap
from reports.types import Resampled
from tests.reports.lake_fixture import LakeBuilder

BOOTSTRAP = Bootstrap(resamples=500)


def resampled(lake: LakeBuilder, baseline: str, candidate: str) -> Resampled:
    """Return the comparison of two arms in the experiment `trial`."""
    with closing(open_marts(lake.root, "trial")) as connection:
        return read_resampled(connection, baseline, candidate, BOOTSTRAP)


def test_what_was_lost_stays_in_the_difference_and_leaves_the_sensitivity(
    lake: LakeBuilder,
) -> None:
    """Lost and missing cells count as not resolved, and complete pairs exclude them."""
    lake.declare(["a", "b"], ["x__x-1", "x__x-2", "y__y-3"])
    for instance in ("x__x-1", "x__x-2", "y__y-3"):
        lake.cell("a", instance, repo="x/x" if instance.startswith("x") else "y/y")
    lake.cell("b", "x__x-1", "unresolved", repo="x/x")
    lake.attempt("b", "x__x-2", outcome="infrastructure", repo="x/x")
    found = resampled(lake, "a", "b")
    assert found.trusted.difference == -1
    assert found.complete == PairedTable(both=0, only_baseline=1, only_candidate=0, neither=0)
    assert found.difference_by_repository.clusters == 2
    assert found.candidate_cost_per_resolved is None


def test_amounts_are_over_pairs_in_which_both_are_known(lake: LakeBuilder) -> None:
    """Each amount is compared on the pairs in which both values are known."""
    lake.declare(["a", "b"], ["i1", "i2"])
    lake.cell("a", "i1", cost_usd=1.0)
    lake.cell("a", "i2", cost_usd=3.0, unpriced_calls=1)
    for instance in ("i1", "i2"):
        lake.cell("b", instance, cost_usd=2.0, duration_s=None)
    found = resampled(lake, "a", "b")
    assert (found.cost.pairs, found.cost.ratio.value) == (1, 2.0)
    assert (found.tokens.pairs, found.duration.pairs) == (2, 0)
    assert found.duration.ratio is None
