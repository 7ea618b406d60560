"""Which arm is worth its cost? Frontier, net benefit and acceptability."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isinf
from typing import TYPE_CHECKING

from reports.analysis.imputation import CERTAINTIES, ArmUnknowns, read_unknown_costs
from reports.economics import LEFT_OUT, STANDINGS, Acceptability, ArmWorth, Increment, Worth
from reports.estimates import Imputed, Interval
from reports.format import DASH, count, listing, of, percent, plural, round_values, usd
from reports.rendering.drawing import (
    INK,
    MUTED,
    Figure,
    arm_line,
    log_axis,
    percent_axis,
)
from reports.rendering.sections import Section, Table
from reports.types import Report
from reports.wording import REPLACED, UNLIMITED, format_signed_usd, interval_text

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from matplotlib.axes import Axes

QUESTION = "Which arm is worth its cost?"

NAMED = 4
"""Maximum number of arms of the frontier that the answer names."""

TABLED = 10
"""Maximum number of values in the table of acceptability, besides the declared one."""

OTHERS = 2
"""Maximum number of other arms whose chance the table of acceptability shows."""

WORTH_NAMING = 0.01
"""Minimum chance of another arm to be shown."""

CURVES = 6
"""Maximum number of acceptability curves, those with the highest chances."""

Texts = tuple[str, ...]


def answer(connection: DuckDBPyConnection, report: Report) -> Section:
    """Return the arms by cost, the chances to be best, and costs with unknown ones replaced."""
    worth, names = report.worth, {arm.name for arm in report.arms}
    unknown = [one for one in read_unknown_costs(connection, worth) if one.arm in names]
    last = (_unknown_costs(report, unknown),) if unknown else ()
    if not worth.arms:
        return Section("worth", QUESTION, f"This needs costs. {_format_omissions(worth)}", last)
    tables = [_arms(worth)]
    if worth.acceptability:
        tables.append(_chances(worth, worth.acceptability))
    footnotes = (*_footnotes(worth), *([REPLACED] if unknown else []))
    return Section(
        "worth",
        QUESTION,
        _answer(worth),
        (*tables, *last),
        footnotes,
        figures=_draw(worth),
    )


def _number(worth: Worth) -> dict[str, int]:
    """Return the number of each arm in table and figure, by ascending cost from 1."""
    return {arm.arm: number for number, arm in enumerate(worth.arms, start=1)}


def _format_omissions(worth: Worth) -> str:
    """Return a sentence for each reason to leave arms out, or an empty text."""
    sentences = []
    for reason, why in LEFT_OUT.items():
        arms = [arm for arm, given in worth.left_out.items() if given == reason]
        if len(arms) > NAMED:
            sentences.append(f"Not compared: {plural(len(arms), 'arm')}, each because {why}.")
        elif arms:
            each = "" if len(arms) == 1 else "each "
            sentences.append(f"Not compared: {listing(arms)}, {each}because {why}.")
    return " ".join(sentences)


def _answer(worth: Worth) -> str:
    if len(worth.arms) == 1:
        return _alone(worth.arms[0])
    sentences = [*_along(worth)]
    if worth.willingness_to_pay is not None and worth.acceptability is not None:
        sentences.append(_at_declared(worth, worth.willingness_to_pay, worth.acceptability))
    return " ".join(sentences)


def _alone(arm: ArmWorth) -> str:
    per_resolved = (
        f"{usd(arm.cost_usd / arm.rate)} per resolved one" if arm.rate else "nothing is resolved"
    )
    return (
        f"{arm.arm} is the only arm to evaluate ({usd(arm.cost_usd)} per instance, {per_resolved})."
    )


def _along(worth: Worth) -> Iterator[str]:
    """Yield a sentence on each step along the frontier."""
    first, *others = worth.frontier
    if not others:
        yield (
            f"{first.arm} resolves as much as any other arm and none is cheaper "
            f"({usd(first.cost_usd)} per instance, {percent(first.rate)}): no other arm is worth "
            "more, whatever a resolved instance is worth."
        )
        return
    yield (
        f"{first.arm} is the cheapest arm ({usd(first.cost_usd)} per instance, "
        f"{percent(first.rate)})."
    )
    for arm in others[: NAMED - 1]:
        if arm.increment:
            yield (
                f"From there to {arm.arm} ({usd(arm.cost_usd)}, {percent(arm.rate)}) "
                f"{_further(arm.increment)}."
            )
    if len(others) >= NAMED:
        yield f"{plural(len(others) - NAMED + 1, 'further arm')} on the frontier cost more."


def _further(step: Increment) -> str:
    """Say what each further resolved instance costs, if the data limit it."""
    if isinf(step.interval.low) or isinf(step.interval.high):
        return "the cost of each further resolved instance cannot be told"
    return (
        f"each further resolved instance costs {usd(step.usd)} (95 % interval "
        f"{_limits(step.interval)})"
    )


def _at_declared(worth: Worth, value: float, curve: Acceptability) -> str:
    place = curve.values.index(value)
    best = worth.arm(curve.frontier[place])
    benefit = best.net_benefit.value if best.net_benefit else 0.0
    told = (
        f"At the declared {usd(value)} for a resolved instance, {best.arm} has the highest net "
        f"benefit ({format_signed_usd(benefit)} per instance; chance that no arm has a higher one: "
        f"{percent(curve.shares[best.arm][place])})."
    )
    return told if benefit > 0 else f"{told} It is worth less than it costs."


def _arms(worth: Worth) -> Table:
    value = worth.willingness_to_pay
    header: Texts = (
        "arm", "place", "number", "cost / instance", "resolved", "cost of a further resolved one",
        "95 % interval", "best if a resolved one is worth",
    )  # fmt: skip
    if value is not None:
        header += (f"net benefit at {usd(value)}", "95 % interval", "chance to be best")
    numbers = _number(worth)
    rows = (_arm_row(worth, arm, numbers) for arm in worth.arms)
    return Table("Arms by cost, and their place against the frontier", header, tuple(rows), 2)


def _arm_row(worth: Worth, arm: ArmWorth, numbers: Mapping[str, int]) -> Texts:
    step = arm.increment
    row = (
        arm.arm,
        _place(arm, numbers),
        count(numbers[arm.arm]),
        of(usd(arm.cost_usd), arm.priced, arm.planned),
        percent(arm.rate),
        usd(step.usd) if step else DASH,
        _limits(step.interval) if step else DASH,
        _range(arm),
    )
    if worth.willingness_to_pay is None or arm.net_benefit is None:
        return row
    chance = DASH
    if worth.acceptability:
        place = worth.acceptability.values.index(worth.willingness_to_pay)
        chance = percent(worth.acceptability.shares[arm.arm][place])
    return (
        *row,
        format_signed_usd(arm.net_benefit.value),
        _limits(arm.net_benefit.interval),
        chance,
    )


def _place(arm: ArmWorth, numbers: Mapping[str, int]) -> str:
    """Format the standing, and the numbers of the arms that dominate."""
    rivals = listing([count(numbers[name]) for name in arm.beaten_by])
    return f"{STANDINGS[arm.standing]} ({rivals})" if rivals else STANDINGS[arm.standing]


def _range(arm: ArmWorth) -> str:
    """Format the values of a resolved instance at which no arm has a higher net benefit."""
    if arm.best_from is None:
        return DASH
    if arm.best_to is None:
        return "anything" if not arm.best_from else f"{usd(arm.best_from)} or more"
    if not arm.best_from:
        return f"at most {usd(arm.best_to)}"
    return f"{usd(arm.best_from)} to {usd(arm.best_to)}"


def _limits(interval: Interval) -> str:
    if isinf(interval.low) and isinf(interval.high):
        return UNLIMITED
    limits = (
        UNLIMITED if isinf(limit) else format_signed_usd(limit)
        for limit in (interval.low, interval.high)
    )
    return " to ".join(limits)


def _chances(worth: Worth, curve: Acceptability) -> Table:
    shown = select_values(curve, worth.willingness_to_pay)
    return Table(
        "Chance to have the highest net benefit, by the value of a resolved instance",
        ("a resolved instance is worth", "chance", "highest mean net benefit", "other arms"),
        tuple(_chance_row(curve, place) for place in shown),
        1,
        2,
    )


def select_values(curve: Acceptability, declared: float | None) -> list[int]:
    """Return the places of the values in the table: round numbers and the declared value.

    If one arm is the best at all of them, the least and the largest are enough.
    """
    low, high = curve.values[0], curve.values[-1]
    values = round_values(low, high)
    if len(values) > TABLED:
        values = [value for value in values if f"{value:e}".startswith("1.0")]
    values = values[:: -(-len(values) // TABLED) or 1]
    shown = {*values, *([] if declared is None else [declared])}
    places = [place for place, value in enumerate(curve.values) if value in shown]
    if len({curve.frontier[place] for place in places}) > 1:
        return places
    ends = {places[0], places[-1]} if places else set()
    return [place for place in places if place in ends or curve.values[place] == declared]


def _chance_row(curve: Acceptability, place: int) -> Texts:
    best = curve.frontier[place]
    shares = {arm: share[place] for arm, share in curve.shares.items() if arm != best}
    others = sorted(shares, key=lambda arm: -shares[arm])[:OTHERS]
    named = [f"{arm} {percent(shares[arm])}" for arm in others if shares[arm] >= WORTH_NAMING]
    return (
        usd(curve.values[place]),
        percent(curve.shares[best][place]),
        best,
        ", ".join(named) or DASH,
    )


def _footnotes(worth: Worth) -> Iterator[str]:
    missing = _format_omissions(worth)
    if missing:
        yield missing
    yield (
        "Resolved: share of the planned cells. Cost: mean over the cells with a fully known cost, "
        "with their number where that is not all. With repeats, each attempt counts as an "
        "instance here."
    )
    yield (
        "Dominated: another arm resolves no less for no more money, and is better in one of the "
        "two. By extension: some mixture of the two arms of these numbers does. Cost of a "
        "further resolved one: additional cost over additional resolution, against the arm "
        "before it on the frontier (Karlsson and Johannesson 1996), with Fieller's interval over "
        "instances (Willan and O'Brien 1996). A limit is unlimited where the difference of "
        "resolution is not clear of 0."
    )
    yield (
        "Net benefit: value of a resolved instance times the share resolved, minus the cost, per "
        "instance (Stinnett and Mullahy 1998). Below zero, an instance that is not attempted at "
        "all is worth more."
        + (
            " Interval: bootstrap by instance."
            if worth.willingness_to_pay is not None
            else " `willingness_to_pay` in the experiment file declares the value."
        )
    )
    if worth.acceptability:
        yield (
            "Chance: share of the resamples in which no arm has a higher net benefit; arms that "
            f"tie share a resample. {count(worth.resamples)} resamples of all "
            f"{count(worth.instances)} instances with all arms together, seed {worth.seed} (van "
            "Hout 1994; Fenwick 2001). By value it is the acceptability curve of an arm. That of "
            "the arm with the highest mean net benefit is the acceptability frontier."
        )


def _unknown_costs(report: Report, unknown: Sequence[ArmUnknowns]) -> Table:
    """Return the costs of each arm with unknown ones replaced."""
    header: Texts = (
        "arm", "place", "unknown costs", "cost / instance, at the mean", "at the maximum",
        "bounds", "cost / resolved, at the mean", "at the maximum", "bounds",
    )  # fmt: skip
    value = report.worth.willingness_to_pay
    if value is not None:
        header += (f"net benefit at {usd(value)}, bounds",)
    rows = tuple(_unknown_row(report, one, value) for one in unknown)
    return Table("Arms with unknown costs, and how far these could move them", header, rows, 2)


def _unknown_row(report: Report, one: ArmUnknowns, value: float | None) -> Texts:
    row = (
        one.arm,
        DASH if one.place is None else CERTAINTIES[one.place],
        f"{count(one.cells)} of {count(one.ran)}",
        *_three(one.per_cell),
        *(_three(one.per_resolved) if one.per_resolved else (DASH,) * 3),
    )
    if value is None:
        return row
    worth = value * report.arm(one.arm).rate
    bounds = one.per_cell.bounds
    return (
        *row,
        f"{format_signed_usd(worth - bounds.high)} to {format_signed_usd(worth - bounds.low)}",
    )


def _three(imputed: Imputed) -> Texts:
    return (
        usd(imputed.at_mean),
        usd(imputed.at_maximum),
        interval_text(imputed.bounds, usd),
    )


def _draw(worth: Worth) -> tuple[Figure, ...]:
    """Draw the acceptability curves. Return no figure with fewer than two arms."""
    curve = worth.acceptability
    return (_acceptability(worth, curve),) if curve and len(worth.arms) > 1 else ()


def _acceptability(worth: Worth, curve: Acceptability) -> Figure:
    ranked = sorted(curve.shares, key=lambda arm: -max(curve.shares[arm]))
    likely = [arm for arm in ranked if max(curve.shares[arm]) >= WORTH_NAMING][:CURVES]
    shown = [arm for arm in worth.arms if arm.arm in likely]
    best = list(dict.fromkeys(curve.frontier))

    def draw(axes: Axes) -> None:
        on_frontier = [curve.shares[arm][i] for i, arm in enumerate(curve.frontier)]
        axes.plot(curve.values, on_frontier, color=INK, linewidth=6, alpha=0.15)
        for arm in shown:
            arm_line(axes, curve.values, curve.shares[arm.arm], arm.position, arm.arm)
        if worth.willingness_to_pay is not None:
            axes.axvline(worth.willingness_to_pay, color=MUTED, linestyle="--", linewidth=1)
        axes.set_xscale("log")
        axes.set_xlim(curve.values[0], curve.values[-1])
        percent_axis(axes.yaxis, axes.set_ylim)
        log_axis(axes)
        axes.grid(visible=True)
        axes.set_xlabel("value of a resolved instance, USD")
        axes.set_ylabel("chance to be the best")
        axes.figure.legend(loc="outside lower left", ncols=1, fontsize=9)

    hidden = len(curve.shares) - len(shown)
    return Figure(
        "acceptability",
        "Acceptability curves",
        "Chance that no other arm has a higher net benefit, by the value of a resolved instance. "
        "Pale band: the arm with the highest mean."
        + (" Dashed vertical line: the declared value." if worth.willingness_to_pay else "")
        + (f" The {hidden} arms with the lowest chances are not drawn." if hidden else ""),
        f"With a rising value of a resolved instance, the best arm is {listing(best)}.",
        2.7 + 0.19 * len(shown),
        draw,
    )
