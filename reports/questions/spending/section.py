"""How much was wasted? The bills of the arms, and their division by purpose."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from reports.format import DASH, UNKNOWN, count, listing, percent, some, usd
from reports.relations import read_rows
from reports.rendering.drawing import (
    INK,
    MUTED,
    PAPER,
    Figure,
    arm_colour,
    arm_rows,
    band_of,
    height_of,
    percent_axis,
    row_transform,
)
from reports.rendering.sections import Section, Table, TableCell, Text
from reports.types import Report
from reports.wording import leading_arms, positions, rank_arms

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from matplotlib.axes import Axes
    from matplotlib.patches import Patch

Purpose = Literal["resolved", "unresolved", "no_verdict", "superseded", "lost", "unpriced"]

PURPOSES: Mapping[Purpose, str] = {
    "resolved": "resolved cells",
    "unresolved": "cells not resolved",
    "no_verdict": "cells without a verdict",
    "superseded": "superseded attempts",
    "lost": "lost calls",
    "unpriced": "calls of unknown price",
}
"""Purposes of spending. The parts add up to the total spent."""

WASTE: tuple[Purpose, ...] = ("no_verdict", "superseded", "lost", "unpriced")
"""Purposes that bought no verdict. Unresolved cells are not counted as waste: the reader judges."""

_LABELLED = 0.12
"""Minimum width of a part of a bar that has room for its share."""

_HATCHES: Mapping[Purpose, str] = {
    "no_verdict": "////",
    "superseded": "....",
    "lost": "xxxx",
    "unpriced": "||||",
}


@dataclass(frozen=True)
class Spending:
    """Costs of one arm over all its attempts at planned cells: a row of `marts.spending`."""

    row: Mapping[str, Any]

    @property
    def arm(self) -> str:
        """Name of the arm."""
        return str(self.row["arm"])

    @property
    def spent_usd(self) -> float | None:
        """The bills, plus the cost of attempts with an unknown bill. None if nothing is known."""
        spent: float | None = self.row["spent_usd"]
        return spent

    def part_usd(self, purpose: Purpose) -> float:
        """Return the USD spent for a purpose. The parts add up to `spent_usd`."""
        return float(self.row[f"{purpose}_usd"])

    def share(self, purpose: Purpose) -> float:
        """Return a purpose's share of what is known of the spending; 0 if that is nothing."""
        return self.part_usd(purpose) / self.spent_usd if self.spent_usd else 0.0

    @property
    def billed(self) -> str:
        """The bill: `unknown` if no attempt has one, a lower bound if only some have."""
        is_bound = self.row["unbilled_attempts"] > 0
        return usd(self.row["billed_usd"], is_bound) if self.row["attempts"] else DASH

    @property
    def credited(self) -> str:
        """The cost of the attempts that count."""
        is_bound = self.row["incomplete_cells"] > 0
        return usd(self.row["credited_usd"], is_bound) if self.row["attempts"] else DASH

    def part(self, purpose: Purpose) -> Text:
        """Return the USD of one part with its share, if that is known.

        What is known only in part is a lower bound, never $0.
        """
        amount, is_bound = self.part_usd(purpose), self.row[f"{purpose}_unknown"] > 0
        if not self.row["attempts"]:
            return DASH
        if self.spent_usd is None or (is_bound and not amount):
            return UNKNOWN
        if not amount or is_bound or self.row["unknown_attempts"]:
            return usd(amount, is_bound)
        return TableCell(usd(amount), quiet=percent(self.share(purpose)))


def answer(connection: DuckDBPyConnection, report: Report) -> Section:
    """Return the bill of each arm by purpose."""
    rows = read_rows(connection, "from marts.spending")
    found = {row["arm"]: Spending(row) for row in rows}
    spendings = [found[arm.name] for arm in rank_arms(report)]
    nothing = _say_nothing(spendings)
    if nothing or not any(arm.started for arm in report.arms):
        text = nothing if nothing and any(arm.started for arm in report.arms) else None
        return Section("spending", _QUESTION, text or " ".join(_summarise(report, found)))
    table = Table(
        "Spending by purpose",
        ("arm", "attempts", "billed", "credited", *PURPOSES.values()),
        tuple(
            (
                one.arm,
                count(one.row["attempts"]),
                one.billed,
                one.credited,
                *map(one.part, PURPOSES),
            )
            for one in spendings
        ),
        style="texts spending",
    )
    return Section(
        "spending",
        _QUESTION,
        " ".join(_summarise(report, found)),
        (table,),
        _FOOTNOTES,
        figures=(_draw(report, spendings),),
    )


def _say_nothing(spendings: Sequence[Spending]) -> str | None:
    """Return one line that says so if no arm spent anything that is known, otherwise None."""
    if any(one.spent_usd for one in spendings):
        return None
    if any(one.row["unknown_attempts"] for one in spendings):
        return "No bill and no cost is known, so nothing is divided by purpose."
    return "Nothing was spent."


def _summarise(report: Report, found: Mapping[str, Spending]) -> Iterator[str]:
    names = {arm.name for arm in leading_arms(report)}
    return (_tell(one) for one in found.values() if one.arm in names)


def _tell(one: Spending) -> str:
    arm, spent = one.arm, one.spent_usd
    if not one.row["attempts"]:
        return f"{arm} has not run."
    if not spent:
        is_unknown = spent is None or one.row["unknown_attempts"]
        return f"The bill of {arm} is unknown." if is_unknown else f"{arm} was billed nothing."
    start = f"{arm} was billed {one.billed}"
    if one.row["billed_usd"] is None:
        start = f"{arm} cost {usd(spent, one.row['unknown_attempts'] > 0)} (its bill is unknown)"
    wasted = sum(one.part_usd(purpose) for purpose in WASTE)
    went = [
        f"{percent(amount / spent)} {what}"
        for amount, what in (
            (one.part_usd("resolved"), f"went into {PURPOSES['resolved']}"),
            (one.part_usd("unresolved"), f"into {PURPOSES['unresolved']}"),
            (wasted, "bought no verdict"),
        )
        if amount
    ]
    return f"{start}: {listing(went)}."


def _draw(report: Report, spendings: Sequence[Spending]) -> Figure:
    position = positions(report)
    spent = [one for one in spendings if one.spent_usd]
    names = [one.arm for one in spent]
    left_out = [one.arm for one in spendings if not one.spent_usd]
    without = f" Not drawn, as nothing is known to be spent: {some(left_out)}." if left_out else ""
    occurring = [each for each in PURPOSES if any(one.part_usd(each) for one in spendings)]

    def draw(axes: Axes) -> None:
        for row, one in enumerate(spent):
            _stack(axes, row, one, arm_colour(position[one.arm]), band_of(names))
            total = usd(one.spent_usd, one.row["unknown_attempts"] > 0)
            axes.text(1.05, row, total, va="center", transform=row_transform(axes))
        arm_rows(axes, names)
        percent_axis(axes.xaxis, axes.set_xlim)
        axes.set_xlabel("share of what was spent")
        axes.figure.legend(
            handles=[_key(purpose) for purpose in occurring],
            loc="outside lower left", ncols=2, fontsize=9,
        )  # fmt: skip

    parts = [
        f"{one.arm} "
        + ", ".join(
            f"{PURPOSES[each]} {percent(one.share(each))}" for each in PURPOSES if one.share(each)
        )
        for one in spent
    ]
    return Figure(
        "spending",
        "Spending by purpose",
        "Solid: spent on resolved cells. To the right of each bar: the total." + without,
        "Share of what was spent: " + "; ".join(parts) + ".",
        height_of(names) + 0.55,
        draw,
    )


def _stack(axes: Axes, row: int, spending: Spending, colour: str, height: float) -> None:
    start = 0.0
    for purpose in PURPOSES:
        width = spending.share(purpose)
        if width:
            axes.barh(row, width, left=start, height=height, **_pattern(purpose, colour))
        if width >= _LABELLED and purpose not in _HATCHES:
            ink = PAPER if purpose == "resolved" else INK
            middle = start + width / 2
            axes.text(middle, row, percent(width), ha="center", va="center", color=ink, fontsize=9)
        start += width


def _key(purpose: Purpose) -> Patch:
    from matplotlib.patches import Patch

    return Patch(label=PURPOSES[purpose], **_pattern(purpose, MUTED))


def _pattern(purpose: Purpose, colour: str) -> dict[str, Any]:
    """Return the fill style of a purpose. Purposes differ by fill, as the colour is the arm's."""
    if purpose not in _HATCHES:
        alpha = 1.0 if purpose == "resolved" else 0.35
        return {"facecolor": colour, "alpha": alpha, "linewidth": 0}
    hatch = _HATCHES[purpose]
    return {"facecolor": PAPER, "edgecolor": colour, "hatch": hatch, "linewidth": 0.8}


_QUESTION = "How much was wasted?"

_FOOTNOTES = (
    "Billed is the bill for everything ever sent, over all attempts at planned cells. Credited is "
    "the cost of the attempts that count. The other columns split the bill by purpose. If a bill "
    "is unknown, the cost is used instead, and losses are unknown.",
    "Superseded attempts were replaced by a later one at the same cell. Cells without a verdict "
    "were stopped, lost to infrastructure or not graded. Lost calls were sent and never answered. "
    "They are billed at their maximum cost. So are calls of unknown price, together with the lost "
    "calls of the same attempts.",
)
