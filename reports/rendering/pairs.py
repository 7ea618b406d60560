"""Every pair of arms: difference, interval, and p-values adjusted for the number of pairs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from reports.format import DASH, count, p_value, plural, points, ratio
from reports.rendering.headline import priced
from reports.rendering.leading import adjusted_p
from reports.rendering.turning import LEVEL
from reports.sections import Row, Section, Table
from reports.types import Comparison, Report

TITLE = "Every pair of arms"

HEADER: Row = (
    "baseline", "candidate", "comparison", "both", "only baseline", "only candidate", "neither",
    "difference, points", "95 % interval", "p", "Holm p, declared", "Holm p, all", "BH p, all",
    "cost ratio", "priced pairs",
)  # fmt: skip

LISTED = 200
"""Maximum number of pairs to list: declared ones, then those with the lowest p-values."""


def pairs_section(report: Report) -> Section | None:
    """Return a summary, the list of pairs and footnotes, or None with fewer than two arms."""
    pairs = report.comparisons
    if not pairs:
        return None
    shown = listed(pairs)
    origin = roots(report)
    rows = tuple(_row(pair, origin[pair.baseline] == origin[pair.candidate]) for pair in shown)
    table = Table(_caption(pairs, shown), HEADER, rows, 3)
    return Section("pairs", TITLE, _summary(pairs), (table,), tuple(_footnotes(report)))


def roots(report: Report) -> Mapping[str, str]:
    """Return by arm the arm with whose draws it begins: itself, if it is not derived."""
    bases = {arm.name: arm.derived_from for arm in report.arms}

    def find(name: str) -> str:
        base = bases.get(name)
        return find(base) if base else name

    return {name: find(name) for name in bases}


def declared_lines(report: Report) -> Iterator[str]:
    """Yield a line on each declared comparison but the leading pair, in its declared direction."""
    for pair in report.comparisons[1:]:
        if pair.adjusted_p_value is None:
            continue
        over = f" on {priced(pair)}" if pair.priced_pairs < pair.table.pairs else ""
        yield (
            f"{pair.candidate} against {pair.baseline} ({pair.role}): "
            f"{points(pair.table.difference)} points (95 % interval {_interval(pair)}); "
            f"p = {p_value(pair.p_value)}, {adjusted_p(pair)} by Holm; "
            f"cost ratio {ratio(pair.cost_ratio)}{over}"
        )


def _interval(pair: Comparison) -> str:
    return f"{points(pair.interval.low)} to {points(pair.interval.high)}"


def listed(pairs: Sequence[Comparison]) -> tuple[Comparison, ...]:
    """Return the pairs to list, in the given order if all of them fit."""
    if len(pairs) <= LISTED:
        return tuple(pairs)
    ranked = sorted(
        pairs,
        key=lambda pair: (
            pair.role == "exploratory",
            pair.p_value,
            -abs(pair.table.difference) if pair.table.pairs else 0.0,
        ),
    )
    return tuple(ranked[:LISTED])


def _summary(pairs: Sequence[Comparison]) -> str:
    searched = [pair for pair in pairs if pair.holm_p_value is not None]
    holm, discovery = (
        sum(value is not None and value < LEVEL for value in values)
        for values in (
            [pair.holm_p_value for pair in searched],
            [pair.false_discovery_p_value for pair in searched],
        )
    )
    declared = sum(pair.adjusted_p_value is not None for pair in pairs)
    told = (
        f"Of {plural(len(searched), 'pair')} of arms, {count(discovery)} differ at {LEVEL:g} by "
        f"Benjamini and Hochberg and {count(holm)} by Holm."
    )
    others = len(pairs) - declared
    if not others:
        return f"{told} All of them were declared in advance."
    return (
        f"{told} {count(declared)} of all pairs were declared in advance, and only these are "
        f"confirmatory; {count(others)} are exploratory."
    )


def _caption(pairs: Sequence[Comparison], shown: Sequence[Comparison]) -> str:
    if len(shown) == len(pairs):
        return "Differences are candidate minus baseline"
    return (
        f"Differences are candidate minus baseline; {count(len(shown))} of "
        f"{plural(len(pairs), 'pair')}, the declared ones and those with the lowest p"
    )


def _row(pair: Comparison, shares_draws: bool) -> Row:
    table = pair.table
    return (
        pair.baseline,
        pair.candidate,
        f"{pair.role}, shared draws" if shares_draws else pair.role,
        count(table.both),
        count(table.only_baseline),
        count(table.only_candidate),
        count(table.neither),
        points(table.difference) if table.pairs else DASH,
        _interval(pair),
        p_value(pair.p_value),
        adjusted_p(pair),
        _shown(pair.holm_p_value),
        _shown(pair.false_discovery_p_value),
        ratio(pair.cost_ratio),
        count(pair.priced_pairs),
    )


def _shown(value: float | None) -> str:
    return DASH if value is None else p_value(value)


def _footnotes(report: Report) -> Iterator[str]:
    yield (
        "Holm p, declared: adjusted over the comparisons that were declared before the first "
        "result (Holm 1979). It is the p-value to decide by; every other comparison is "
        "exploratory, whatever its p-value."
    )
    yield (
        "Holm p, all, and BH p, all: adjusted over all pairs of arms without controls. Holm limits "
        "the chance of any false alarm among all pairs; BH, by Benjamini and Hochberg (1995), the "
        "expected share of false alarms among the pairs below the level. Intervals are those of "
        "single pairs, not adjusted: each holds the differences that the test of p does not reject."
    )
    yield (
        f"`durabench report {report.source.experiment} --compare BASELINE CANDIDATE` adds a page "
        "with all numbers of one pair."
    )
