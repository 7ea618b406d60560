"""Which arm is worth its cost? Frontier, net benefit and acceptability."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isinf
from typing import TYPE_CHECKING

from reports.analysis.imputation import CERTAINTIES, ArmUnknowns, read_unknown_costs
from reports.economics import LEFT_OUT, STANDINGS, Acceptability, ArmWorth, Worth
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
from reports.wording import REPLACED, format_signed_usd, interval_text

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
    unknown = [arm for arm in read_unknown_costs(connection, worth) if arm.arm in names]
    last = (_list_unknown_costs(report, unknown),) if unknown else ()
    if not worth.arms:
        text = f"This needs costs. {_list_left_out(worth)}"
        return Section("worth", QUESTION, text, last)
    tables, figures = [_list_arms(worth)], []
    if worth.acceptability:
        tables.append(_list_chances(worth, worth.acceptability))
        figures.append(_draw(worth, worth.acceptability))
    return Section(
        "worth",
        QUESTION,
        " ".join(_answer(worth)),
        (*tables, *last),
        (*_footnotes(worth), *([REPLACED] if unknown else [])),
        figures=tuple(figures),
    )


def _list_left_out(worth: Worth) -> str:
    """Return a sentence for each reason to leave arms out, or an empty text."""
    sentences = []
    for reason, text in LEFT_OUT.items():
        arms = [arm for arm in worth.left_out if worth.left_out[arm] == reason]
        if len(arms) > NAMED:
            sentences.append(f"Not compared: {plural(len(arms), 'arm')}, each because {text}.")
        elif arms:
            each = "" if len(arms) == 1 else "each "
            sentences.append(f"Not compared: {listing(arms)}, {each}because {text}.")
    return " ".join(sentences)


def _answer(worth: Worth) -> Iterator[str]:
    """Yield a sentence on each step along the frontier, and one on the declared value."""
    if len(worth.arms) == 1:
        [arm] = worth.arms
        per_resolved = (
            f"{usd(arm.cost_usd / arm.rate)} per resolved one"
            if arm.rate
            else "nothing is resolved"
        )
        cost = f"{usd(arm.cost_usd)} per instance, {per_resolved}"
        yield f"{arm.arm} is the only arm to evaluate ({cost})."
        return
    first, *others = worth.frontier
    cost = f"{usd(first.cost_usd)} per instance, {percent(first.rate)}"
    if others:
        yield f"{first.arm} is the cheapest arm ({cost})."
    else:
        yield (
            f"{first.arm} resolves as much as any other arm and none is cheaper ({cost}): no other "
            "arm is worth more, whatever a resolved instance is worth."
        )
    for arm in others[: NAMED - 1]:
        if step := arm.increment:
            price = (
                "the data do not limit the cost of each further resolved instance"
                if isinf(step.interval.low) or isinf(step.interval.high)
                else f"each further resolved instance costs {usd(step.usd)} (95 % interval "
                f"{_show_limits(step.interval)})"
            )
            yield f"From there to {arm.arm} ({usd(arm.cost_usd)}, {percent(arm.rate)}) {price}."
    if len(others) >= NAMED:
        yield f"{plural(len(others) - NAMED + 1, 'further arm')} on the frontier cost more."
    value, curve = worth.willingness_to_pay, worth.acceptability
    if value is not None and curve:
        place = curve.values.index(value)
        best = worth.arm(curve.frontier[place])
        benefit = best.net_benefit.value if best.net_benefit else 0.0
        yield (
            f"At the declared {usd(value)} for a resolved instance, {best.arm} has the highest net "
            f"benefit ({format_signed_usd(benefit)} per instance; chance that no arm has a higher "
            f"one: {percent(curve.shares[best.arm][place])})."
        )
        if benefit <= 0:
            yield "It is worth less than it costs."


def _list_arms(worth: Worth) -> Table:
    """Return the arms by ascending cost, which numbers them from 1."""
    value, curve = worth.willingness_to_pay, worth.acceptability
    header: Texts = (
        "arm", "place", "number", "cost / instance", "resolved", "cost of a further resolved one",
        "95 % interval", "best if a resolved one is worth",
    )  # fmt: skip
    if value is not None:
        header += (f"net benefit at {usd(value)}", "95 % interval", "chance to be best")
    numbers = {arm.arm: count(number) for number, arm in enumerate(worth.arms, start=1)}
    rows = []
    for arm in worth.arms:
        rivals = listing([numbers[name] for name in arm.beaten_by])
        step = arm.increment
        row: Texts = (
            arm.arm,
            STANDINGS[arm.standing] + (f" ({rivals})" if rivals else ""),
            numbers[arm.arm],
            of(usd(arm.cost_usd), arm.priced, arm.planned),
            percent(arm.rate),
            usd(step.usd) if step else DASH,
            _show_limits(step.interval) if step else DASH,
            _show_range(arm),
        )
        if value is not None and arm.net_benefit:
            chance = percent(curve.shares[arm.arm][curve.values.index(value)]) if curve else DASH
            benefit = arm.net_benefit
            row += (format_signed_usd(benefit.value), _show_limits(benefit.interval), chance)
        rows.append(row)
    return Table("Arms by cost, and their place against the frontier", header, tuple(rows), 2)


def _show_range(arm: ArmWorth) -> str:
    """Format the values of a resolved instance at which no arm has a higher net benefit."""
    if arm.best_from is None:
        return DASH
    if arm.best_to is None:
        return "anything" if not arm.best_from else f"{usd(arm.best_from)} or more"
    if not arm.best_from:
        return f"at most {usd(arm.best_to)}"
    return f"{usd(arm.best_from)} to {usd(arm.best_to)}"


def _show_limits(interval: Interval) -> str:
    return interval_text(interval, format_signed_usd)


def _list_chances(worth: Worth, curve: Acceptability) -> Table:
    rows = []
    for place in select_values(curve, worth.willingness_to_pay):
        best = curve.frontier[place]
        shares = {arm: share[place] for arm, share in curve.shares.items() if arm != best}
        others = sorted(shares, key=lambda arm: -shares[arm])[:OTHERS]
        texts = [f"{arm} {percent(shares[arm])}" for arm in others if shares[arm] >= WORTH_NAMING]
        value, chance = usd(curve.values[place]), percent(curve.shares[best][place])
        rows.append((value, chance, best, ", ".join(texts) or DASH))
    return Table(
        "Chance to have the highest net benefit, by the value of a resolved instance",
        ("a resolved instance is worth", "chance", "highest mean net benefit", "other arms"),
        tuple(rows),
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


def _footnotes(worth: Worth) -> Iterator[str]:
    if missing := _list_left_out(worth):
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
            f"{plural(worth.instances, 'instance')} with all arms together, seed {worth.seed} (van "
            "Hout 1994; Fenwick 2001). By value it is the acceptability curve of an arm. That of "
            "the arm with the highest mean net benefit is the acceptability frontier."
        )


def _list_unknown_costs(report: Report, unknown: Sequence[ArmUnknowns]) -> Table:
    """Return the costs of each arm with unknown ones replaced."""
    header: Texts = (
        "arm", "place", "unknown costs", "cost / instance, at the mean", "at the maximum",
        "bounds", "cost / resolved, at the mean", "at the maximum", "bounds",
    )  # fmt: skip
    value = report.worth.willingness_to_pay
    if value is not None:
        header += (f"net benefit at {usd(value)}, bounds",)

    def show(imputed: Imputed | None) -> Texts:
        if imputed is None:
            return DASH, DASH, DASH
        bounds = interval_text(imputed.bounds, usd)
        return usd(imputed.at_mean), usd(imputed.at_maximum), bounds

    rows = []
    for arm in unknown:
        row: Texts = (
            arm.arm,
            DASH if arm.place is None else CERTAINTIES[arm.place],
            f"{count(arm.cells)} of {count(arm.ran)}",
            *show(arm.per_cell),
            *show(arm.per_resolved),
        )
        if value is not None:
            worth, bounds = value * report.arm(arm.arm).rate, arm.per_cell.bounds
            benefit = Interval(worth - bounds.high, worth - bounds.low)
            row += (_show_limits(benefit),)
        rows.append(row)
    title = "Arms with unknown costs, and how far these could move them"
    return Table(title, header, tuple(rows), 2)


def _draw(worth: Worth, curve: Acceptability) -> Figure:
    """Draw the acceptability curves."""
    ranked = sorted(curve.shares, key=lambda arm: -max(curve.shares[arm]))
    likely = [arm for arm in ranked if max(curve.shares[arm]) >= WORTH_NAMING][:CURVES]
    arms = [arm for arm in worth.arms if arm.arm in likely]
    best = list(dict.fromkeys(curve.frontier))

    def draw(axes: Axes) -> None:
        on_frontier = [curve.shares[arm][i] for i, arm in enumerate(curve.frontier)]
        axes.plot(curve.values, on_frontier, color=INK, linewidth=6, alpha=0.15)
        for arm in arms:
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

    hidden = len(curve.shares) - len(arms)
    return Figure(
        "acceptability",
        "Acceptability curves",
        "Chance that no other arm has a higher net benefit, by the value of a resolved instance. "
        "Pale band: the arm with the highest mean."
        + (" Dashed vertical line: the declared value." if worth.willingness_to_pay else "")
        + (f" Not drawn: {plural(hidden, 'arm')} with the lowest chances." if hidden else ""),
        f"With a rising value of a resolved instance, the best arm is {listing(best)}.",
        2.7 + 0.19 * len(arms),
        draw,
    )
