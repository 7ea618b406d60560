"""Costs of the leading pair resampled by repository, and the question of each interval."""

from __future__ import annotations

from collections.abc import Iterator

from reports.estimates import Estimate
from reports.format import DASH, count, ratio, usd
from reports.rendering.lines import BY_REPOSITORY, Line, Show, estimate_line, signed
from reports.types import Resampled


def costs_by_repository(resampled: Resampled) -> Iterator[Line]:
    """Yield cost ratio, cost difference and costs per resolved cell, drawn by repository."""
    costs = resampled.costs_by_repository
    shown: tuple[tuple[str, Estimate | None, Show], ...] = (
        ("cost, ratio by repository", costs.ratio, ratio),
        ("cost, difference per cell by repository", costs.difference, _dollars),
        (
            f"per resolved cell by repository, {resampled.baseline}",
            costs.baseline_per_resolved,
            usd,
        ),
        (
            f"per resolved cell by repository, {resampled.candidate}",
            costs.candidate_per_resolved,
            usd,
        ),
        ("per resolved cell by repository, ratio", costs.ratio_per_resolved, ratio),
    )
    for name, estimate, show in shown:
        if estimate:
            yield estimate_line(name, estimate, show, repositories(estimate), BY_REPOSITORY)


def repositories(estimate: Estimate | None) -> str:
    """Format the number of repositories that were drawn, or as a dash without an estimate."""
    if estimate is None:
        return DASH
    return (
        f"{count(estimate.clusters)} {'repository' if estimate.clusters == 1 else 'repositories'}"
    )


def _dollars(value: float) -> str:
    return signed(value, usd)


def questions() -> Iterator[str]:
    """Yield a sentence on the question that each kind of interval answers."""
    yield (
        "Paired test, and intervals by instance: how far could the number be off if other "
        "instances of the same repositories had been drawn?"
    )
    yield (
        "Intervals by repository: how far could it be off if other repositories had been drawn? "
        "They are the ones to read before moving to a repository that is not in the data, and need "
        "about ten repositories of similar size."
    )
    yield (
        "Bootstrap-t: each resample is divided by its own standard error, which keeps the coverage "
        "for few instances with skewed costs. Differences have symmetric limits (Hall 1988); cost "
        "per resolved cell inverts the test (Fieller 1954; Hwang 1995)."
    )
    yield (
        "Imputed costs and bounds: how far could a number of cost be off because some prices are "
        "unknown, whatever was drawn?"
    )
