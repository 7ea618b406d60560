"""How much was wasted? The bills of the arms, and their division by purpose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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

    @property
    def billed(self) -> str:
        """The bill: `unknown` if no attempt has one, a lower bound if only some have."""
        return usd(self.row["billed_usd"], self.row["unbilled_attempts"] > 0)

    def part_usd(self, purpose: Purpose) -> float:
        """Return the USD spent for a purpose. The parts add up to `spent_usd`."""
        return float(self.row[f"{purpose}_usd"])

    def share(self, purpose: Purpose) -> float:
        """Return a purpose's share of the known spending, or 0 without any."""
        return self.part_usd(purpose) / self.spent_usd if self.spent_usd else 0.0

    def part(self, purpose: Purpose) -> Text:
        """Return the USD of one part with its share, if that is known.

        What is known only in part is a lower bound, never $0.
        """
        amount, is_bound = self.part_usd(purpose), self.row[f"{purpose}_unknown"] > 0
        if self.spent_usd is None or (is_bound and not amount):
            return UNKNOWN
        if not amount or is_bound or self.row["unknown_attempts"]:
            return usd(amount, is_bound)
        return TableCell(usd(amount), quiet=percent(self.share(purpose)))


def answer(connection: DuckDBPyConnection, report: Report) -> Section:
    """Return the bill of each arm by purpose."""
    rows = read_rows(connection, "from marts.spending")
    by_arm = {row["arm"]: Spending(row) for row in rows}
    spendings = [by_arm[arm.name] for arm in rank_arms(report)]
    leading = {arm.name for arm in leading_arms(report)}
    text = " ".join(_describe(arm) for arm in by_arm.values() if arm.arm in leading)
    has_run = any(arm.started for arm in report.arms)
    if not has_run or not any(arm.spent_usd for arm in spendings):
        if has_run and any(arm.row["unknown_attempts"] for arm in spendings):
            text = "No bill and no cost is known, so nothing is divided by purpose."
        elif has_run:
            text = "Nothing was spent."
        return Section("spending", _QUESTION, text)
    table = Table(
        "Spending by purpose",
        ("arm", "attempts", "billed", "credited", *PURPOSES.values()),
        tuple(map(_row, spendings)),
        style="texts spending",
    )
    figure = _draw(report, spendings)
    return Section("spending", _QUESTION, text, (table,), _FOOTNOTES, figures=(figure,))


def _row(spending: Spending) -> tuple[Text, ...]:
    row = spending.row
    if not row["attempts"]:
        return (spending.arm, "0", *[DASH] * (2 + len(PURPOSES)))
    credited = usd(row["credited_usd"], row["incomplete_cells"] > 0)
    parts = map(spending.part, PURPOSES)
    return (spending.arm, count(row["attempts"]), spending.billed, credited, *parts)


def _describe(spending: Spending) -> str:
    arm, row, spent = spending.arm, spending.row, spending.spent_usd
    if not row["attempts"]:
        return f"{arm} has not run."
    if not spent:
        is_unknown = spent is None or row["unknown_attempts"]
        return f"The bill of {arm} is unknown." if is_unknown else f"{arm} was billed nothing."
    start = f"{arm} was billed {spending.billed}"
    if row["billed_usd"] is None:
        start = f"{arm} cost {usd(spent, row['unknown_attempts'] > 0)} (its bill is unknown)"
    amounts = {
        f"went into {PURPOSES['resolved']}": spending.part_usd("resolved"),
        f"into {PURPOSES['unresolved']}": spending.part_usd("unresolved"),
        "bought no verdict": sum(map(spending.part_usd, WASTE)),
    }
    parts = [f"{percent(usd / spent)} {what}" for what, usd in amounts.items() if usd]
    return f"{start}: {listing(parts)}."


def _draw(report: Report, spendings: Sequence[Spending]) -> Figure:
    position = positions(report)
    arms = [arm for arm in spendings if arm.spent_usd]
    names = [arm.arm for arm in arms]
    caption = "Solid: spent on resolved cells. To the right of each bar: the total."
    if left_out := [arm.arm for arm in spendings if not arm.spent_usd]:
        caption += f" Not drawn, as nothing is known to be spent: {some(left_out)}."

    def draw(axes: Axes) -> None:
        from matplotlib.patches import Patch

        for row, arm in enumerate(arms):
            _stack(axes, row, arm, arm_colour(position[arm.arm]), band_of(names))
            total = usd(arm.spent_usd, arm.row["unknown_attempts"] > 0)
            axes.text(1.05, row, total, va="center", transform=row_transform(axes))
        arm_rows(axes, names)
        percent_axis(axes.xaxis, axes.set_xlim)
        axes.set_xlabel("share of the spending")
        axes.figure.legend(
            handles=[
                Patch(label=label, **_choose_fill(purpose, MUTED))
                for purpose, label in PURPOSES.items()
                if any(arm.part_usd(purpose) for arm in spendings)
            ],
            loc="outside lower left", ncols=2, fontsize=9,
        )  # fmt: skip

    descriptions = []
    for arm in arms:
        shares = {label: arm.share(purpose) for purpose, label in PURPOSES.items()}
        parts = [f"{label} {percent(share)}" for label, share in shares.items() if share]
        descriptions.append(f"{arm.arm} {', '.join(parts)}")
    return Figure(
        "spending",
        "Spending by purpose",
        caption,
        "Share of the spending: " + "; ".join(descriptions) + ".",
        height_of(names) + 0.55,
        draw,
    )


def _stack(axes: Axes, row: int, spending: Spending, colour: str, height: float) -> None:
    start = 0.0
    for purpose in PURPOSES:
        width = spending.share(purpose)
        if width:
            axes.barh(row, width, left=start, height=height, **_choose_fill(purpose, colour))
        if width >= _LABELLED and purpose not in _HATCHES:
            ink = PAPER if purpose == "resolved" else INK
            middle = start + width / 2
            axes.text(middle, row, percent(width), ha="center", va="center", color=ink, fontsize=9)
        start += width


def _choose_fill(purpose: Purpose, colour: str) -> dict[str, Any]:
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
