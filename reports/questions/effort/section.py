"""How do the arms work, and where does the money go?"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from reports.format import DASH, count, mean, percent, ratio, usd
from reports.relations import read_rows
from reports.rendering.drawing import (
    Box,
    Figure,
    arm_colour,
    arm_rows,
    band_of,
    boxes,
    height_of,
    log_or_linear,
    usd_axis,
)
from reports.rendering.sections import Section, Table
from reports.types import ArmSummary, Report
from reports.wording import MANY_ARMS, leading_arms, positions, ranked

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from matplotlib.axes import Axes

TOOLS = 12
"""Maximum number of tools in the table. The others are one column."""

MAIN = "main conversation"
"""Name of calls without a role or a phase."""

Texts = tuple[str, ...]


class Spread(NamedTuple):
    """Distribution of one amount over the cells of one arm that ran, where it is fully known."""

    cells: int
    mean: float
    least: float
    lower_quartile: float
    median: float
    upper_quartile: float
    most: float


Spreads = Mapping[tuple[str, str, str], Spread]
"""By arm, amount (calls, cost) and verdict (all, resolved, unresolved)."""


def answer(connection: DuckDBPyConnection, report: Report) -> Section | None:
    """Return calls, costs by verdict, roles and tools. Return None if none of them is known."""
    spreads = read_spreads(connection)
    calls = read_rows(connection, "from marts.call_uses")
    tools = [*_tools(report, read_rows(connection, "from marts.tool_uses"))]
    tables = (
        *_turns(report, spreads),
        *_costs(report, spreads),
        *_uses(report, calls),
        *tools,
    )
    if not tables:
        return None
    names = {arm.name for arm in report.arms}
    footnotes = list(_FOOTNOTES)
    footnotes += [_OF_CALLS] if any(row["arm"] in names for row in calls) else []
    footnotes += [_OF_TOOLS] if tools else []
    return Section(
        "effort",
        "How do the arms work, and where does the money go?",
        _summarise(report, spreads),
        tables,
        tuple(footnotes),
        figures=tuple(_draw(report, spreads)),
    )


def read_spreads(connection: DuckDBPyConnection) -> Spreads:
    """Read all distributions. `connection` has the marts."""
    return {
        (row["arm"], row["amount"], row["verdict"]): Spread(
            **{name: row[name] for name in Spread._fields}
        )
        for row in read_rows(connection, "from marts.spreads")
    }


def _summarise(report: Report, spreads: Spreads) -> str:
    """State calls and costs of single attempts of the leading arms."""
    sentences = [_tell(arm.name, spreads) for arm in leading_arms(report)]
    return " ".join(filter(None, sentences)) or "The tables show what is known of the other arms."


def _tell(arm: str, spreads: Spreads) -> str:
    parts = []
    if calls := spreads.get((arm, "calls", "all")):
        parts.append(f"makes {calls.median:,.0f} calls in the middle and {calls.most:,.0f} at most")
    good, bad = (spreads.get((arm, "cost", verdict)) for verdict in ("resolved", "unresolved"))
    if good and bad:
        parts.append(
            f"pays {usd(good.mean)} for a resolved attempt and {usd(bad.mean)} for another one"
        )
    return f"{arm} {' and '.join(parts)}." if parts else ""


def _turns(report: Report, spreads: Spreads) -> Iterator[Table]:
    rows = tuple(
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
        if (calls := spreads.get((arm.name, "calls", "all"))) and calls.most
    )
    header = (
        *("arm", "attempts", "median", "middle half", "mean", "most", "cache hits"),
        "output tokens per call",
    )
    if rows:
        yield Table("Turns (model calls) of an attempt", header, rows)


def _quartiles(spread: Spread, show: Callable[[float], str]) -> Texts:
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


def _costs(report: Report, spreads: Spreads) -> Iterator[Table]:
    rows = []
    for arm in ranked(report):
        good, bad = (spreads.get((arm.name, "cost", v)) for v in ("resolved", "unresolved"))
        if any(each and each.most for each in (good, bad)):
            against = bad.mean / good.mean if good and bad and good.mean else None
            rows.append((arm.name, *_cost(good), *_cost(bad), ratio(against)))
    header = (
        *("arm", "resolved", "median", "middle half", "mean"),
        *("not resolved", "median", "middle half", "mean", "ratio of means"),
    )
    if rows:
        yield Table("Cost of an attempt, by its verdict", header, tuple(rows))


def _cost(spread: Spread | None) -> Texts:
    if spread is None:
        return "0", DASH, DASH, DASH
    return count(spread.cells), *_quartiles(spread, usd), usd(spread.mean)


def _uses(report: Report, calls: Sequence[Mapping[str, Any]]) -> Iterator[Table]:
    """Yield the money by role and phase of the arms that have several."""
    by_arm: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for use in calls:
        by_arm[use["arm"]].append(use)
    rows = tuple(
        row
        for arm in ranked(report)
        if len(by_arm[arm.name]) > 1
        for row in _uses_of(by_arm[arm.name])
    )
    header = ("arm", "role", "phase", "calls", "cost", "share of cost", "cache hits")
    if rows:
        yield Table("Money by role and phase", header, rows, words=3)


def _uses_of(uses: Sequence[Mapping[str, Any]]) -> Iterator[Texts]:
    spent = sum(use["cost_usd"] or 0.0 for use in uses)
    for use in uses:
        cost, cached, given = (
            use[name] for name in ("cost_usd", "cache_read_tokens", "input_tokens")
        )
        yield (
            use["arm"],
            use["role"] or MAIN,
            use["phase"] or MAIN,
            count(use["calls"]),
            usd(cost, use["priced_calls"] < use["calls"]),
            percent(cost / spent) if cost is not None and spent else DASH,
            DASH if cached is None or not given else percent(cached / given),
        )


def _tools(report: Report, rows: Sequence[Mapping[str, Any]]) -> Iterator[Table]:
    """Yield the share of each tool in an arm's uses, most frequent tools first."""
    contenders = {arm.name for arm in report.arms if not arm.is_control}
    uses: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        if row["arm"] in contenders:
            uses[row["arm"]][row["tool"]] += row["uses"]
    arms = [arm.name for arm in ranked(report) if arm.name in uses]
    if not arms:
        return
    total = sum(uses.values(), Counter[str]())
    tools = sorted(total, key=lambda tool: (-total[tool], tool))
    shown, others = tools[:TOOLS], tools[TOOLS:]
    named = [*shown, *(["others"] if others else [])]
    parts = {arm: _mix(uses[arm], shown, others) for arm in arms}
    caption = "Tools: share of an arm's steps in the workspace"
    if len(arms) > MANY_ARMS:
        yield Table(caption, ("arm", *named), tuple((arm, *parts[arm]) for arm in arms))
    else:
        yield Table(caption, ("tool", *arms), tuple(zip(named, *parts.values(), strict=True)))


def _mix(uses: Counter[str], shown: Sequence[str], others: Sequence[str]) -> list[str]:
    numbers = [uses[tool] for tool in shown]
    numbers += [sum(uses[tool] for tool in others)] if others else []
    return [f"{percent(number / uses.total())} ({count(number)})" for number in numbers]


_Row = tuple[str, list[tuple[str, Spread]]]
"""An arm with the distributions that share its row, by verdict."""

_BOXES = (
    "The box spans the middle half, its line is the median, and the thin lines end at the least "
    "and the most."
)


def _draw(report: Report, spreads: Spreads) -> Iterator[Figure]:
    """Draw calls of an attempt, and costs of resolved and unresolved ones, where known."""

    def rows(amount: str, *verdicts: str) -> list[_Row]:
        found = (
            (
                arm.name,
                [(v, each) for v in verdicts if (each := spreads.get((arm.name, amount, v)))],
            )
            for arm in ranked(report)
        )
        return [(arm, shown) for arm, shown in found if any(each.most for _, each in shown)]

    if calls := rows("calls", "all"):
        yield _draw_calls(report, calls)
    if costs := rows("cost", "resolved", "unresolved"):
        yield _draw_costs(report, costs)


def _draw_calls(report: Report, rows: list[_Row]) -> Figure:
    def draw(axes: Axes) -> None:
        _draw_boxes(axes, report, rows)
        axes.set_xlim(left=0)
        axes.set_xlabel("model calls of one attempt")

    ranges = [
        f"{arm} {one.median:,.0f} ({one.least:,.0f} to {one.most:,.0f})"
        for arm, ((_, one),) in rows
    ]
    return Figure(
        "calls",
        "Turns of an attempt",
        _BOXES,
        "Calls of an attempt, median and range: " + "; ".join(ranges) + ".",
        height_of([arm for arm, _ in rows]),
        draw,
    )


def _draw_costs(report: Report, rows: list[_Row]) -> Figure:
    def draw(axes: Axes) -> None:
        _draw_boxes(axes, report, rows)
        log_or_linear(
            axes, [end for _, shown in rows for _, one in shown for end in (one.least, one.most)]
        )
        usd_axis(axes)
        axes.set_xlabel("cost of one attempt, USD")

    medians = [
        f"{arm} {', '.join(f'{usd(one.median)} {verdict}' for verdict, one in shown)}"
        for arm, shown in rows
    ]
    return Figure(
        "cost-by-verdict",
        "Cost of resolved and of other attempts",
        "Above and filled: resolved. Below and open: not resolved. " + _BOXES,
        "Median cost of an attempt: " + "; ".join(medians) + ".",
        height_of([arm for arm, _ in rows], 1.25),
        draw,
    )


def _draw_boxes(axes: Axes, report: Report, rows: list[_Row]) -> None:
    """Draw one row per arm, with its distributions below each other."""
    names, position = [arm for arm, _ in rows], positions(report)
    band = band_of(names)
    drawn = []
    for row, (arm, shown) in enumerate(rows):
        height = band / len(shown)
        for place, (verdict, spread) in enumerate(shown):
            middle, colour = (
                row + height * (place - (len(shown) - 1) / 2),
                arm_colour(position[arm]),
            )
            is_filled = verdict != "unresolved"
            drawn.append(Box.of(spread._asdict(), middle, colour, is_filled=is_filled))
    boxes(axes, drawn, 0.8 * band / max(len(shown) for _, shown in rows))
    arm_rows(axes, names)


_FOOTNOTES = (
    "A turn is one answered model call of an attempt that counts. Median and middle half (from "
    "the lower to the upper quartile) are interpolated order statistics (Hyndman, R. J. and "
    "Fan, Y. (1996), The American Statistician 50, 361-365, type 7). They describe these "
    "attempts and have no interval.",
    "Cache hits: input tokens that were read from a cache, as a share of all input tokens. "
    "Known only where the provider tells.",
    "Cost by verdict covers attempts with a fully known cost. An attempt that ran and is not "
    "resolved counts as not resolved, for whatever reason. Hard instances cost more and are "
    "resolved less often, so the ratio does not say what failing costs by itself.",
)

_OF_CALLS = (
    "Role is the part of the agent that asked, and phase the branch of its control flow, with the "
    "numbers of branches left out. Shares are of the cost of all calls with a known price in "
    "attempts that count."
)

_OF_TOOLS = (
    "Tools: commands in the workspace and the agent's own actions, as recorded. What a command "
    "does is not looked into."
)
