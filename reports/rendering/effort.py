"""The work of the arms: amounts and kinds, and the cost of their cells."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from reports.breakdowns import CallUse, Spread, ToolUsage
from reports.format import DASH, count, mean, percent, ratio, usd
from reports.rendering.order import MANY_ARMS, ranked
from reports.sections import Row, Section, Table
from reports.types import ArmSummary, Report

QUESTION = "How do the arms work, and where does the money go?"

TOOLS = 12
"""Maximum number of tools in the table. The others are one column."""

MAIN = "main conversation"
"""Name of calls without a role or a phase."""


def effort_section(report: Report) -> Section:
    """Return the section about effort: an answer, tables and footnotes."""
    tables = tuple(_tables(report))
    if not tables:
        return Section("effort", QUESTION, "Neither calls nor costs of single attempts are known.")
    return Section("effort", QUESTION, _answer(report), tables, _footnotes(report))


def _answer(report: Report) -> str:
    """State calls and costs of single attempts of the leading arms."""
    told = [sentence for arm in _leading(report) if (sentence := _of_arm(report, arm))]
    return " ".join(told) or "The tables show what is known of the other arms."


def _leading(report: Report) -> Sequence[ArmSummary]:
    if not report.comparisons:
        return report.arms
    pair = report.comparisons[0]
    return report.arm(pair.baseline), report.arm(pair.candidate)


def _of_arm(report: Report, arm: ArmSummary) -> str:
    spread = report.breakdowns.spread
    told = []
    if calls := spread(arm.name, "calls", "all"):
        told.append(f"makes {calls.median:,.0f} calls in the middle and {calls.most:,.0f} at most")
    good, bad = spread(arm.name, "cost", "resolved"), spread(arm.name, "cost", "unresolved")
    if good and bad:
        told.append(
            f"pays {usd(good.mean)} for a resolved attempt and {usd(bad.mean)} for another one"
        )
    return f"{arm.name} {' and '.join(told)}." if told else ""


def _tables(report: Report) -> Iterator[Table]:
    yield from _turns(report)
    yield from _costs(report)
    yield from _uses(report)
    yield from _tools(report)


def _turns(report: Report) -> Iterator[Table]:
    rows = [
        (
            arm.name,
            count(calls.cells),
            *_quartiles(calls, lambda value: f"{value:,.0f}"),
            mean(calls.mean),
            f"{calls.most:,.0f}",
            _cache_hits(arm),
            _per_call(arm, calls),
        )
        for arm in ranked(report)
        if (calls := report.breakdowns.spread(arm.name, "calls", "all")) and calls.most
    ]
    if rows:
        yield Table(
            "Turns (model calls) of an attempt",
            (
                "arm", "attempts", "median", "middle half", "mean", "most", "cache hits",
                "output tokens per call",
            ),
            tuple(rows),
        )  # fmt: skip


def _quartiles(spread: Spread, show: Callable[[float], str]) -> tuple[str, str]:
    low, high = show(spread.lower_quartile), show(spread.upper_quartile)
    return show(spread.median), f"{low} to {high}"


def _cache_hits(arm: ArmSummary) -> str:
    """Format the share of input tokens that came from a cache."""
    cached, given = arm.tokens.cache_read, arm.tokens.input
    is_known = not arm.tokens.lower_bounds & {"cache_read", "input"}
    return percent(cached / given) if is_known and given and cached is not None else DASH


def _per_call(arm: ArmSummary, calls: Spread) -> str:
    """Format output tokens per call, if both are known for the same cells."""
    is_whole = not arm.tokens.unknown_cells and calls.cells == arm.started
    if arm.tokens.output is None or not is_whole or not calls.mean:
        return DASH
    return f"{arm.tokens.output / (calls.mean * calls.cells):,.0f}"


def _costs(report: Report) -> Iterator[Table]:
    rows = []
    for arm in ranked(report):
        spread = report.breakdowns.spread
        good, bad = spread(arm.name, "cost", "resolved"), spread(arm.name, "cost", "unresolved")
        if any(each and each.most for each in (good, bad)):
            against = bad.mean / good.mean if good and bad and good.mean else None
            rows.append((arm.name, *_cost(good), *_cost(bad), ratio(against)))
    if rows:
        yield Table(
            "Cost of an attempt, by its verdict",
            (
                "arm", "resolved", "median", "middle half", "mean", "not resolved", "median",
                "middle half", "mean", "ratio of means",
            ),
            tuple(rows),
        )  # fmt: skip


def _cost(spread: Spread | None) -> Row:
    if spread is None:
        return "0", DASH, DASH, DASH
    return count(spread.cells), *_quartiles(spread, usd), usd(spread.mean)


def _uses(report: Report) -> Iterator[Table]:
    """Yield the money by role and phase of the arms that have several."""
    by_arm: defaultdict[str, list[CallUse]] = defaultdict(list)
    for use in report.breakdowns.calls:
        by_arm[use.arm].append(use)
    rows = [
        row
        for arm in ranked(report)
        if len(by_arm[arm.name]) > 1
        for row in _uses_of(arm.name, by_arm[arm.name])
    ]
    if rows:
        yield Table(
            "Money by role and phase",
            ("arm", "role", "phase", "calls", "cost", "share of cost", "cache hits"),
            tuple(rows),
            words=3,
        )


def _uses_of(arm: str, uses: Sequence[CallUse]) -> Iterator[Row]:
    spent = sum(use.cost_usd or 0.0 for use in uses)
    for use in uses:
        is_known = use.cost_usd is not None and spent
        cached, given = use.cache_read_tokens, use.input_tokens
        yield (
            arm,
            use.role or MAIN,
            use.phase or MAIN,
            count(use.calls),
            usd(use.cost_usd, use.priced_calls < use.calls),
            percent((use.cost_usd or 0.0) / spent) if is_known else DASH,
            DASH if cached is None or not given else percent(cached / given),
        )


def _tools(report: Report) -> Iterator[Table]:
    """Yield the share of each tool in an arm's uses, most frequent tools first."""
    uses: defaultdict[str, dict[str, ToolUsage]] = defaultdict(dict)
    total: defaultdict[str, int] = defaultdict(int)
    for use in report.breakdowns.tools:
        if not report.arm(use.arm).is_control:
            uses[use.arm][use.tool] = use
            total[use.tool] += use.uses
    arms = [arm.name for arm in ranked(report) if arm.name in uses]
    if not arms:
        return
    tools = sorted(total, key=lambda tool: (-total[tool], tool))
    shown, others = tools[:TOOLS], tools[TOOLS:]
    named = [*shown, *(["others"] if others else [])]
    parts = {arm: _mix(uses[arm], shown, others) for arm in arms}
    caption = "Tools: share of an arm's steps in the workspace"
    if len(arms) > MANY_ARMS:
        yield Table(caption, ("arm", *named), tuple((arm, *parts[arm]) for arm in arms))
    else:
        rows = zip(named, *parts.values(), strict=True)
        yield Table(caption, ("tool", *arms), tuple(rows))


def _mix(uses: dict[str, ToolUsage], shown: Sequence[str], others: Sequence[str]) -> list[str]:
    total = sum(use.uses for use in uses.values())
    of_tool = [uses[tool].uses if tool in uses else 0 for tool in shown]
    if others:
        of_tool.append(sum(uses[tool].uses for tool in others if tool in uses))
    return [f"{percent(number / total)} ({count(number)})" for number in of_tool]


def _footnotes(report: Report) -> tuple[str, ...]:
    notes = [
        "A turn is one answered model call of an attempt that counts. Median and middle half (from "
        "the lower to the upper quartile) are interpolated order statistics (Hyndman, R. J. and "
        "Fan, Y. (1996), The American Statistician 50, 361-365, type 7). They describe these "
        "attempts and have no interval.",
        "Cache hits: input tokens that were read from a cache, as a share of all input tokens. "
        "Known only where the provider tells.",
        "Cost by verdict covers attempts with a fully known cost. An attempt that ran and is not "
        "resolved counts as not resolved, for whatever reason. Hard instances cost more and are "
        "resolved less often, so the ratio does not say what failing costs by itself.",
    ]
    if report.breakdowns.calls:
        notes.append(
            "Role is the part of the agent that asked, and phase the branch of its control flow, "
            "with the numbers of branches left out. Shares are of the cost of all calls with a "
            "known price in attempts that count."
        )
    if report.breakdowns.tools:
        notes.append(
            "Tools: commands in the workspace and the agent's own actions, as recorded. What a "
            "command does is not looked into."
        )
    return tuple(notes)
