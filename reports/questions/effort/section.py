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
from reports.types import Report
from reports.wording import MANY_ARMS, leading_arms, positions, rank_arms

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
    tools = [*_list_tools(report, read_rows(connection, "from marts.tool_uses"))]
    tables = (
        *_list_turns(report, spreads),
        *_list_costs(report, spreads),
        *_list_uses(report, calls),
        *tools,
    )
    if not tables:
        return None
    names = {arm.name for arm in report.arms}
    footnotes = list(_FOOTNOTES)
    footnotes += [_OF_CALLS] if any(row["arm"] in names for row in calls) else []
    footnotes += [_OF_TOOLS] if tools else []
    sentences = filter(None, (_describe(arm.name, spreads) for arm in leading_arms(report)))
    return Section(
        "effort",
        "How do the arms work, and where does the money go?",
        " ".join(sentences) or "Only the tables have numbers, of other arms.",
        tables,
        tuple(footnotes),
        figures=tuple(_draw(report, spreads)),
    )


def read_spreads(connection: DuckDBPyConnection) -> Spreads:
    """Read all distributions. `connection` has the marts."""
    return {
        (row["arm"], row["amount"], row["verdict"]): Spread(*(row[name] for name in Spread._fields))
        for row in read_rows(connection, "from marts.spreads")
    }


def _describe(arm: str, spreads: Spreads) -> str:
    """State calls and costs of single attempts, if they are known."""
    parts = []
    if calls := spreads.get((arm, "calls", "all")):
        parts.append(f"makes {calls.median:,.0f} calls in the middle and {calls.most:,.0f} at most")
    good, bad = (spreads.get((arm, "cost", verdict)) for verdict in ("resolved", "unresolved"))
    if good and bad:
        parts.append(
            f"pays {usd(good.mean)} for a resolved attempt and {usd(bad.mean)} for another one"
        )
    return f"{arm} {' and '.join(parts)}." if parts else ""


def _list_turns(report: Report, spreads: Spreads) -> Iterator[Table]:
    rows = []
    for arm in rank_arms(report):
        calls = spreads.get((arm.name, "calls", "all"))
        if not calls or not calls.most:
            continue
        tokens, hits, per_call = arm.tokens, DASH, DASH
        is_known = not tokens.lower_bounds & {"cache_read", "input"}
        if is_known and tokens.input and tokens.cache_read is not None:
            hits = percent(tokens.cache_read / tokens.input)
        is_whole = not tokens.unknown_cells and calls.cells == arm.started
        if tokens.output is not None and is_whole and calls.mean:
            per_call = f"{tokens.output / (calls.mean * calls.cells):,.0f}"
        rows.append(
            (
                arm.name,
                count(calls.cells),
                *_show_quartiles(calls, lambda value: f"{value:,.0f}"),
                mean(calls.mean),
                f"{calls.most:,.0f}",
                hits,
                per_call,
            )
        )
    header = (
        *("arm", "attempts", "median", "middle half", "mean", "most", "cache hits"),
        "output tokens per call",
    )
    if rows:
        yield Table("Turns (model calls) of an attempt", header, tuple(rows))


def _show_quartiles(spread: Spread, show: Callable[[float], str]) -> Texts:
    low, high = show(spread.lower_quartile), show(spread.upper_quartile)
    return show(spread.median), f"{low} to {high}"


def _list_costs(report: Report, spreads: Spreads) -> Iterator[Table]:
    def show(spread: Spread | None) -> Texts:
        if spread is None:
            return "0", DASH, DASH, DASH
        return count(spread.cells), *_show_quartiles(spread, usd), usd(spread.mean)

    rows = []
    for arm in rank_arms(report):
        good, bad = (spreads.get((arm.name, "cost", v)) for v in ("resolved", "unresolved"))
        if (good and good.most) or (bad and bad.most):
            against = bad.mean / good.mean if good and bad and good.mean else None
            rows.append((arm.name, *show(good), *show(bad), ratio(against)))
    header = (
        *("arm", "resolved", "median", "middle half", "mean"),
        *("not resolved", "median", "middle half", "mean", "ratio of means"),
    )
    if rows:
        yield Table("Cost of an attempt, by its verdict", header, tuple(rows))


def _list_uses(report: Report, calls: Sequence[Mapping[str, Any]]) -> Iterator[Table]:
    """Yield the money by role and phase of the arms that have several."""
    by_arm: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for use in calls:
        by_arm[use["arm"]].append(use)
    rows = []
    for arm in rank_arms(report):
        uses = by_arm[arm.name]
        spent = sum(use["cost_usd"] or 0.0 for use in uses)
        for use in uses if len(uses) > 1 else ():
            cost, cached, tokens = use["cost_usd"], use["cache_read_tokens"], use["input_tokens"]
            rows.append(
                (
                    arm.name,
                    use["role"] or MAIN,
                    use["phase"] or MAIN,
                    count(use["calls"]),
                    usd(cost, use["priced_calls"] < use["calls"]),
                    percent(cost / spent) if cost is not None and spent else DASH,
                    DASH if cached is None or not tokens else percent(cached / tokens),
                )
            )
    header = ("arm", "role", "phase", "calls", "cost", "share of cost", "cache hits")
    if rows:
        yield Table("Money by role and phase", header, tuple(rows), words=3)


def _list_tools(report: Report, rows: Sequence[Mapping[str, Any]]) -> Iterator[Table]:
    """Yield the share of each tool in an arm's uses, most frequent tools first."""
    contenders = {arm.name for arm in report.arms if not arm.is_control}
    uses: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        if row["arm"] in contenders:
            uses[row["arm"]][row["tool"]] += row["uses"]
    arms = [arm.name for arm in rank_arms(report) if arm.name in uses]
    if not arms:
        return
    total = sum(uses.values(), Counter[str]())
    tools = sorted(total, key=lambda tool: (-total[tool], tool))
    groups = {tool: [tool] for tool in tools[:TOOLS]}
    if tools[TOOLS:]:
        groups["others"] = tools[TOOLS:]
    parts = {}
    for arm in arms:
        numbers = [sum(uses[arm][tool] for tool in group) for group in groups.values()]
        parts[arm] = [f"{percent(n / uses[arm].total())} ({count(n)})" for n in numbers]
    caption = "Tools: share of an arm's steps in the workspace"
    if len(arms) > MANY_ARMS:
        yield Table(caption, ("arm", *groups), tuple((arm, *parts[arm]) for arm in arms))
    else:
        yield Table(caption, ("tool", *arms), tuple(zip(groups, *parts.values(), strict=True)))


_Row = tuple[str, list[tuple[str, Spread]]]
"""An arm with the distributions that share its row, by verdict."""

_BOXES = (
    "The box spans the middle half, its line is the median, and the thin lines end at the least "
    "and the most."
)


def _draw(report: Report, spreads: Spreads) -> Iterator[Figure]:
    """Draw calls of an attempt, and costs of resolved and unresolved ones, where known."""

    def rows(amount: str, *verdicts: str) -> list[_Row]:
        arms = []
        for arm in rank_arms(report):
            keys = [(verdict, (arm.name, amount, verdict)) for verdict in verdicts]
            parts = [(verdict, spreads[key]) for verdict, key in keys if key in spreads]
            if any(spread.most for _, spread in parts):
                arms.append((arm.name, parts))
        return arms

    if calls := rows("calls", "all"):
        ranges = [
            f"{arm} {spread.median:,.0f} ({spread.least:,.0f} to {spread.most:,.0f})"
            for arm, ((_, spread),) in calls
        ]
        yield Figure(
            "calls",
            "Turns of an attempt",
            _BOXES,
            "Calls of an attempt, median and range: " + "; ".join(ranges) + ".",
            height_of([arm for arm, _ in calls]),
            lambda axes: _draw_boxes(axes, report, calls, is_usd=False),
        )
    if costs := rows("cost", "resolved", "unresolved"):
        medians = [
            f"{arm} {', '.join(f'{usd(spread.median)} {verdict}' for verdict, spread in parts)}"
            for arm, parts in costs
        ]
        yield Figure(
            "cost-by-verdict",
            "Cost of resolved and of other attempts",
            "Above and filled: resolved. Below and open: not resolved. " + _BOXES,
            "Median cost of an attempt: " + "; ".join(medians) + ".",
            height_of([arm for arm, _ in costs], 1.25),
            lambda axes: _draw_boxes(axes, report, costs, is_usd=True),
        )


def _draw_boxes(axes: Axes, report: Report, rows: list[_Row], *, is_usd: bool) -> None:
    """Draw one row per arm, with its distributions below each other."""
    names, position = [arm for arm, _ in rows], positions(report)
    band = band_of(names)
    drawings = []
    for row, (arm, parts) in enumerate(rows):
        height, colour = band / len(parts), arm_colour(position[arm])
        for place, (verdict, spread) in enumerate(parts):
            middle = row + height * (place - (len(parts) - 1) / 2)
            is_filled = verdict != "unresolved"
            drawings.append(Box.of(spread._asdict(), middle, colour, is_filled=is_filled))
    boxes(axes, drawings, 0.8 * band / max(len(parts) for _, parts in rows))
    arm_rows(axes, names)
    if is_usd:
        spreads = [spread for _, parts in rows for _, spread in parts]
        log_or_linear(axes, [end for spread in spreads for end in (spread.least, spread.most)])
        usd_axis(axes)
        axes.set_xlabel("cost of one attempt, USD")
    else:
        axes.set_xlim(left=0)
        axes.set_xlabel("model calls of one attempt")


_FOOTNOTES = (
    "A turn is one answered model call of an attempt that counts. Median and middle half (from "
    "the lower to the upper quartile) are interpolated order statistics (Hyndman, R. J. and "
    "Fan, Y. (1996), The American Statistician 50, 361-365, type 7). They describe these "
    "attempts and have no interval.",
    "Cache hits: input tokens that were read from a cache, as a share of all input tokens. "
    "Known only where the provider reports them.",
    "Cost by verdict covers attempts with a fully known cost. An attempt that ran and is not "
    "resolved counts as not resolved, for whatever reason. Hard instances cost more and are "
    "resolved less often, so the ratio is not the price of failing itself.",
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
