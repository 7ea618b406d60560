"""Every pair of arms: difference, interval, and p-values adjusted for the number of pairs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from reports.estimates import LEVEL
from reports.format import DASH, count, p_value, plural, point_limits, points, ratio
from reports.rendering.drawing import MUTED, PAPER, RULE, Figure, arm_colour
from reports.rendering.sections import Section, Table
from reports.types import Comparison, Report
from reports.wording import format_adjusted_p, of_pairs

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TITLE = "Every pair of arms"

HEADER = (
    *("baseline", "candidate", "comparison", "both", "only baseline", "only candidate", "neither"),
    *("difference, points", "95 % interval", "p", "Holm p, declared", "Holm p, all"),
    *("BH p, all", "cost ratio", "priced pairs"),
)

LISTED = 200
"""Maximum number of pairs to list: declared ones, then those with the lowest p-values."""

NAMED = 25
"""Up to this number of arms, each row has a label, and the caption has the names."""

SHORT = 16
"""Longest name that is a label. Otherwise the labels are places by resolution."""

_COLOUR = arm_colour(0)
_FILLS: dict[str, dict[str, Any]] = {
    "Holm": {"facecolor": _COLOUR, "alpha": 0.9},
    "BH": {"facecolor": _COLOUR, "alpha": 0.4},
    "none": {"facecolor": RULE, "alpha": 0.45},
}
"""Fill by the strictest correction after which a pair differs."""

_KEYS = {
    "Holm": f"differ by Holm (p < {LEVEL:g})",
    "BH": "differ by Benjamini and Hochberg only",
    "none": "not distinguishable",
}


def answer(_: object, report: Report) -> Section | None:
    """Return a summary, the list of pairs and footnotes, or None with fewer than two arms."""
    pairs = report.comparisons
    if not pairs:
        return None
    caption, rows = "Differences are candidate minus baseline", list(pairs)
    if len(pairs) > LISTED:
        rows = sorted(pairs, key=_rank)[:LISTED]
        caption += (
            f"; {count(LISTED)} of {plural(len(pairs), 'pair')}, the declared ones and those with "
            "the lowest p"
        )
    bases = {arm.name: arm.derived_from for arm in report.arms}
    return Section(
        "pairs",
        TITLE,
        _summarise(pairs),
        (Table(caption, HEADER, tuple(_row(pair, bases) for pair in rows), 3),),
        tuple(_footnotes(report)),
        figures=_draw_pairs(report),
        is_detail=True,
        brief=tuple(_list_declared(report)),
    )


def _rank(pair: Comparison) -> tuple[bool, float, float]:
    size = abs(pair.table.difference) if pair.table.pairs else 0.0
    return pair.role == "exploratory", pair.p_value, -size


def _list_declared(report: Report) -> Iterator[str]:
    """Yield a line on each declared comparison but the leading pair, in its declared direction."""
    for pair in report.comparisons[1:]:
        if pair.adjusted_p_value is None:
            continue
        limits, adjusted = point_limits(pair.interval), format_adjusted_p(pair)
        is_part = pair.priced_pairs < pair.table.pairs
        over = f" on {of_pairs(pair.priced_pairs, pair)}" if is_part else ""
        yield (
            f"{pair.candidate} against {pair.baseline} ({pair.role}): "
            f"{points(pair.table.difference)} points (95 % interval {limits}); "
            f"p = {p_value(pair.p_value)}, {adjusted} by Holm; cost ratio "
            f"{ratio(pair.cost_ratio)}{over}"
        )


def _summarise(pairs: Sequence[Comparison]) -> str:
    classes = Counter(_classify(pair) for pair in pairs if pair.holm_p_value is not None)
    declared = sum(pair.adjusted_p_value is not None for pair in pairs)
    text = (
        f"Of {plural(classes.total(), 'pair')} of arms, "
        f"{count(classes['BH'] + classes['Holm'])} differ at {LEVEL:g} by Benjamini and Hochberg "
        f"and {count(classes['Holm'])} by Holm."
    )
    if declared == len(pairs):
        return f"{text} All of them were declared in advance."
    return (
        f"{text} {count(declared)} of all pairs were declared in advance, and only these are "
        f"confirmatory; {count(len(pairs) - declared)} are exploratory."
    )


def _row(pair: Comparison, bases: Mapping[str, str | None]) -> tuple[str, ...]:
    def find_root(name: str) -> str:
        """Return the first base of a derived arm, or the arm itself."""
        base = bases.get(name)
        return find_root(base) if base else name

    def show(value: float | None) -> str:
        return DASH if value is None else p_value(value)

    table, shares_draws = pair.table, find_root(pair.baseline) == find_root(pair.candidate)
    return (
        pair.baseline,
        pair.candidate,
        f"{pair.role}, shared draws" if shares_draws else pair.role,
        *map(count, (table.both, table.only_baseline, table.only_candidate, table.neither)),
        points(table.difference) if table.pairs else DASH,
        point_limits(pair.interval),
        p_value(pair.p_value),
        format_adjusted_p(pair),
        show(pair.holm_p_value),
        show(pair.false_discovery_p_value),
        ratio(pair.cost_ratio),
        count(pair.priced_pairs),
    )


def _footnotes(report: Report) -> Iterator[str]:
    yield (
        "Holm p, declared: adjusted over the comparisons that were declared before the first "
        "result (Holm 1979). It is the p-value to decide by; every other comparison is "
        "exploratory, whatever its p-value."
    )
    yield (
        "Holm p, all, and BH p, all: adjusted over all pairs of arms without controls. Holm limits "
        "the chance of any false alarm among all pairs; BH, by Benjamini and Hochberg (1995), the "
        "expected share of false alarms among the pairs below the level. Intervals are for "
        "single pairs, not adjusted: each holds the differences that the test of p does not reject."
    )
    yield (
        f"`durabench report {report.source.experiment} --compare BASELINE CANDIDATE` adds a page "
        "with all numbers of one pair."
    )


def _draw_pairs(report: Report) -> tuple[Figure, ...]:
    """Draw the matrix of all pairs. Return no figure with fewer than three arms."""
    searched = [pair for pair in report.comparisons if pair.holm_p_value is not None]
    compared = {name for pair in searched for name in (pair.baseline, pair.candidate)}
    arms = sorted((arm for arm in report.arms if arm.name in compared), key=lambda arm: -arm.rate)
    names = [arm.name for arm in arms]
    if len(names) < 3:
        return ()
    classes = {frozenset((pair.baseline, pair.candidate)): _classify(pair) for pair in searched}
    is_named = len(names) <= NAMED and all(len(name) <= SHORT for name in names)
    key = (
        ""
        if is_named or len(names) > NAMED
        else ", ".join(f"{place} {name}" for place, name in enumerate(names, start=1))
    )
    differing = sum(kind != "none" for kind in classes.values())
    return (
        Figure(
            "pairs",
            "Differences between arms",
            "Arms by resolution, the best first: the arm of the column resolves at least as much "
            "as the arm of the row. Exploratory, unless the pair was declared."
            + (f" Places: {key}." if key else ""),
            f"{plural(differing, 'pair')} of {len(classes)} differ after correction.",
            3.6,
            lambda axes: _draw_matrix(axes, names, classes, is_named=is_named),
        ),
    )


def _classify(pair: Comparison) -> str:
    if pair.holm_p_value is not None and pair.holm_p_value < LEVEL:
        return "Holm"
    discovery = pair.false_discovery_p_value
    return "BH" if discovery is not None and discovery < LEVEL else "none"


def _draw_matrix(
    axes: Axes, names: Sequence[str], classes: dict[frozenset[str], str], *, is_named: bool
) -> None:
    from matplotlib.patches import Patch

    for row in range(1, len(names)):
        pairs = (frozenset((names[row], name)) for name in names[:row])
        start = 0
        for kind, run in groupby(classes.get(pair, "none") for pair in pairs):
            width = len(list(run))
            axes.broken_barh([(start - 0.5, width)], (row - 0.5, 1), linewidth=0, **_FILLS[kind])
            start += width
    if len(names) <= NAMED:
        lines = [place + 0.5 for place in range(len(names) - 1)]
        axes.hlines(lines, -0.5, [line + 0.5 for line in lines], color=PAPER, linewidth=0.8)
        axes.vlines(
            lines, [line + 0.5 for line in lines], len(names) - 0.5, color=PAPER, linewidth=0.8
        )
    step = 1 if len(names) <= NAMED else 20
    places = [place for place in range(len(names)) if step == 1 or (place + 1) % step == 0]
    numbers = [str(place + 1) for place in places]
    axes.set_yticks(places, [names[place] for place in places] if is_named else numbers)
    axes.set_xticks(places, numbers)
    axes.set_xlim(-0.5, len(names) - 0.5)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.tick_params(length=0, labelsize=8)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_xlabel("place by resolution")
    handles = [
        Patch(label=key, edgecolor=MUTED, linewidth=0.3, **_FILLS[kind])
        for kind, key in _KEYS.items()
        if kind in classes.values()
    ]
    axes.figure.legend(handles=handles, loc="outside lower left", ncols=1, fontsize=9)
