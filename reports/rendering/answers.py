"""The questions of a report, each with its answer in one or two sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from reports.analysis.differences import Side, read_sides
from reports.analysis.failing import failures_of, group_failures
from reports.analysis.spending import WASTE, billed, nothing_spent
from reports.format import (
    count,
    listing,
    percent,
    plural,
    ratio,
    usd,
)
from reports.losses import FAILURES, PURPOSES, Spending
from reports.rendering import costs
from reports.rendering.budgets import budget_section
from reports.rendering.effort import effort_section
from reports.rendering.headline import headline, priced
from reports.rendering.instances import instances_section
from reports.rendering.leading import Leading
from reports.rendering.lines import Line, interval_text
from reports.rendering.worth import worth_section
from reports.sections import Section
from reports.types import ArmSummary, Comparison, Report, Resampled

QUESTION = "Which arm is best, how sure is that, and at which price?"


@dataclass(frozen=True)
class AnsweredQuestion:
    """One question and its answer from the data."""

    name: str
    """Anchor for links within the page."""
    question: str
    text: str


def answers(report: Report, leading: Leading | None) -> tuple[AnsweredQuestion, ...]:
    """Return all answers, in the order in which a reader asks.

    Questions on failures, budgets and work are left out if nothing is known about them.
    """
    silent = {
        *([] if _tells_of_failures(report) else ["failures"]),
        *([] if report.budgets else ["budget"]),
        *([] if effort_section(report).tables else ["effort"]),
    }
    return tuple(answer for answer in _all(report, leading) if answer.name not in silent)


def _tells_of_failures(report: Report) -> bool:
    """Return True if no cell failed, or if a reason is known of one that did."""
    arms = [arm.name for arm in report.arms]
    return not report.failures.counts or bool(group_failures(report, arms))


def _all(report: Report, leading: Leading | None) -> tuple[AnsweredQuestion, ...]:
    return (
        AnsweredQuestion("resolution", QUESTION, headline(report)),
        AnsweredQuestion("cost", "What does it cost?", _cost(report, leading)),
        _of_section(worth_section(report)),
        _of_section(budget_section(report)),
        AnsweredQuestion("differences", "Where do they differ?", _differences(read_sides(report))),
        _of_section(instances_section(report)),
        AnsweredQuestion("failures", "Why do attempts fail?", " ".join(_failures(report))),
        _of_section(effort_section(report)),
        AnsweredQuestion("spending", "How much was wasted?", " ".join(_spending(report))),
    )


def _of_section(section: Section) -> AnsweredQuestion:
    return AnsweredQuestion(section.name, section.question, section.answer)


def _cost(report: Report, leading: Leading | None) -> str:
    if not costs.has_costs(report):
        return costs.NONE_KNOWN
    if leading is None:
        return "; ".join(_cost_of(arm) for arm in report.arms) + "."
    pair, resampled = report.comparisons[0], report.resampled
    arms = "; ".join(_cost_of(arm) for arm in _leading_arms(report))
    if not pair.priced_pairs or resampled is None:
        return f"{arms}. The cost ratio is unknown: no pair has both costs."
    is_all = pair.priced_pairs == pair.table.pairs
    told = arms if is_all else "; ".join(_costs_of_pairs(pair, resampled))
    where = "" if is_all else f" on the {priced(pair)} with both costs known"
    if pair.cost_ratio is None:
        line = f"The cost ratio is not defined{where}: {told}."
    else:
        interval = _with_interval(leading.cost_ratio)
        line = f"{pair.candidate} costs {interval} as much as {pair.baseline}{where}: {told}."
    return (
        line
        if is_all
        else " ".join([line, *_unknown(resampled), f"Over all cells that ran: {arms}."])
    )


def _unknown(resampled: Resampled) -> Iterator[str]:
    """Yield a sentence on the ratio of cost if unknown costs could change it."""
    if resampled.unknown_costs:
        bounds = interval_text(resampled.unknown_costs.ratio.bounds, ratio)
        yield (
            "With each unknown cost between its known part and the highest known cost of its arm, "
            f"the ratio is {bounds}."
        )


def _costs_of_pairs(pair: Comparison, resampled: Resampled) -> Iterator[str]:
    """Yield the cost of each arm on the compared pairs."""
    for name, spent, per_resolved in (
        (pair.baseline, pair.baseline_cost_usd, resampled.baseline_cost_per_resolved),
        (pair.candidate, pair.candidate_cost_usd, resampled.candidate_cost_per_resolved),
    ):
        resolved = (
            f"{usd(per_resolved.value)} per resolved cell" if per_resolved else "none resolved"
        )
        yield f"{name} {usd(spent / pair.priced_pairs)} per cell, {resolved}"


def _with_interval(line: Line) -> str:
    return f"{line.value} (95 % interval {line.interval})"


def _cost_of(arm: ArmSummary) -> str:
    if arm.cost.is_unmetered:
        return f"{arm.name} was not metered (all its costs are 0)"
    if arm.cost.usd is None:
        return f"the cost of {arm.name} is unknown"
    bound = arm.cost.is_lower_bound
    per_resolved = costs.cost_per_resolved(arm) + (" per resolved cell" if arm.resolved else "")
    return f"{arm.name} {usd(arm.cost_per_instance, bound)} per cell, {per_resolved}"


def _differences(sides: Sequence[Side]) -> str:
    if not sides:
        return "There is only one arm, so there is nothing to compare."
    if not any(side.cells for side in sides):
        return f"Nowhere: {sides[0].winner} and {sides[1].winner} resolve the same cells."
    first, second = sides
    return (
        f"{first.winner} alone resolves {plural(first.cells, 'cell')}, {second.winner} alone "
        f"{count(second.cells)}."
    )


def _failures(report: Report) -> Iterator[str]:
    for arm in _leading_arms(report):
        failed = failures_of(report, arm.name)
        if not failed:
            yield f"{arm.name} leaves no cell unresolved."
            continue
        kind, cells = next(iter(failed.items()))
        total = sum(failed.values())
        yield (
            f"{arm.name} leaves {count(total)} of {plural(arm.planned, 'cell')} unresolved, most "
            f"often: {FAILURES[kind]} ({count(cells)}, {percent(cells / total)})."
        )


def _spending(report: Report) -> Iterator[str]:
    nothing = nothing_spent(report.spending)
    if nothing and any(arm.started for arm in report.arms):
        yield nothing
        return
    names = {arm.name for arm in _leading_arms(report)}
    for spending in report.spending:
        if spending.arm in names:
            yield _spending_of(spending)


def _spending_of(spending: Spending) -> str:
    if not spending.attempts:
        return f"{spending.arm} has not run."
    if not spending.spent_usd and (spending.spent_usd is None or spending.unknown_attempts):
        return f"The bill of {spending.arm} is unknown."
    if not spending.spent_usd:
        return f"{spending.arm} was billed nothing."
    wasted = sum(spending.parts[purpose] for purpose in WASTE)
    if spending.billed_usd is None:
        start = f"{spending.arm} cost {usd(spending.spent_usd, spending.unknown_attempts > 0)}"
        start += " (its bill is unknown)"
    else:
        start = f"{spending.arm} was billed {billed(spending)}"
    went = [
        f"{percent(amount / spending.spent_usd)} {what}"
        for amount, what in (
            (spending.parts["resolved"], f"went into {PURPOSES['resolved']}"),
            (spending.parts["unresolved"], f"into {PURPOSES['unresolved']}"),
            (wasted, "bought no verdict"),
        )
        if amount
    ]
    return f"{start}: {listing(went)}."


def _leading_arms(report: Report) -> tuple[ArmSummary, ...]:
    """Return the arms of the leading pair, or all arms if there is no pair."""
    if not report.comparisons:
        return report.arms
    pair = report.comparisons[0]
    return report.arm(pair.baseline), report.arm(pair.candidate)
