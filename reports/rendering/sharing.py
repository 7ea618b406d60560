"""Derived arms: what they share with others, and what that saved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reports.format import count, percent, plural, usd
from reports.rendering.order import some
from reports.rendering.sections import Row, Section, Table
from reports.sharing import Sharing
from reports.types import Note, Report

TITLE = "Draws that derived arms share"


def sharing_section(report: Report) -> Section | None:
    """Return the table of derived arms with footnotes, or None if there is no such arm."""
    if not report.sharing:
        return None
    header = (
        *("arm", "derives from", "attempts", "calls", "shared calls", "share"),
        *("credited", "saved by sharing", "billed"),
    )
    table = Table("Derived arms", header, tuple(map(_row, report.sharing)), 2)
    return Section("sharing", TITLE, _told(report.sharing), (table,), _FOOTNOTES)


def sharing_notes(sharing: Sequence[Sharing]) -> tuple[Note, ...]:
    """Return the note that marks derived arms, if there are any."""
    if not sharing:
        return ()
    named = some([f"{one.arm} from {one.derived_from}" for one in sharing])
    return (
        Note(
            "note",
            f"Derived arms share draws with others ({named}): {_told(sharing)} Costs are what "
            "each arm costs alone; only the bill says what was bought.",
        ),
    )


def roots(report: Report) -> Mapping[str, str]:
    """Return by arm the arm with whose draws it begins: itself, if it is not derived."""
    own = {arm.name: arm.name for arm in report.arms}
    return own | {one.arm: one.origin for one in report.sharing}


def _told(sharing: Sequence[Sharing]) -> str:
    calls, reused = sum(one.calls for one in sharing), sum(one.reused_calls for one in sharing)
    known = [one.reused_usd for one in sharing if one.reused_usd is not None]
    is_bound = len(known) < len(sharing) or any(one.incomplete_cells for one in sharing)
    saved = usd(sum(known), is_bound) if known else "an unknown amount"
    return (
        f"{count(reused)} of their {plural(calls, 'call')} were bought for another arm, which "
        f"saved {saved}."
    )


def _row(one: Sharing) -> Row:
    return (
        one.arm,
        one.derived_from,
        count(one.attempts),
        count(one.calls),
        count(one.reused_calls),
        percent(one.reused_calls / one.calls) if one.calls else "",
        usd(one.credited_usd, one.incomplete_cells > 0),
        usd(one.reused_usd, one.incomplete_cells > 0),
        usd(one.billed_usd, one.unbilled_cells > 0),
    )


_FOOTNOTES = (
    "An attempt of a derived arm runs from its beginning. Where a step has the same inputs as in "
    "the attempt of its base at the same instance and repeat, it has the same result; everything "
    "else is done anew. Credited is what the attempt would cost alone, billed what was bought.",
    "Tests of resolution stay exact: if the arms are alike, each is as likely as the other to be "
    "the only one that resolves a cell, however much the two attempts share, and instances are "
    "independent of each other. Sharing makes fewer pairs differ, so differences are less random.",
    "The time of an attempt counts that of the shared steps in their own attempt.",
)
