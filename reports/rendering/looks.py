"""The note on an unfinished primary comparison, or on one that ended its experiment."""

from __future__ import annotations

from collections.abc import Iterator

from reports.analysis.early_end import EarlyEnd
from reports.analysis.looks import InterimLook
from reports.format import count, percent, points, usd
from reports.types import Note


def look_notes(
    look: InterimLook | None, end: EarlyEnd | None, saved_usd: float | None
) -> Iterator[Note]:
    """Yield the note on an unfinished primary comparison, or on one that ended the experiment.

    `saved_usd` is the cost of the cells that were not needed; None if it is unknown.
    """
    if end is not None:
        yield Note("note", _early_end(end, saved_usd))
    elif look is not None:
        yield Note("note", _unfinished(look))


def _unfinished(look: InterimLook) -> str:
    ahead, behind, counts = _in_order(look)
    decided = 1 / look.level
    if look.e_value >= decided:
        conclusion = f"{ahead} resolves more than {behind}, however often somebody looked"
    else:
        conclusion = f"nothing yet about {look.candidate} and {look.baseline}"
    return (
        f"The experiment is unfinished: {count(look.complete)} of {count(look.instances)} "
        "instances are complete in both arms of the primary comparison. What may be concluded now: "
        f"{conclusion} ({counts}; e-value {_e_value(look.e_value)}, decided at "
        f"{percent(look.level)} from {decided:g} on). "
        "P-values and intervals hold for one look at the end."
    )


def _early_end(end: EarlyEnd, saved_usd: float | None) -> str:
    ahead, behind, counts = _in_order(end)
    worth = f", about {usd(saved_usd)} at the mean cost of a cell" if saved_usd else ""
    size = points(abs(end.difference)).lstrip("+")
    return (
        f"The experiment ended early, as declared (stop_when): {ahead} resolves more than "
        f"{behind} (e-value {_e_value(end.e_value)} after {count(end.complete)} complete "
        f"instances, decided at {percent(end.alpha)} from {1 / end.alpha:g} on; {counts}). "
        f"{count(end.cells_not_needed)} of {count(end.cells_planned)} planned cells were not "
        f"needed{worth}. They are in no rate. The lead then was {size} points: a lead at which an "
        "experiment ends is larger on average than the true one, and p-values and intervals do not "
        "know of the end."
    )


def _in_order(found: InterimLook | EarlyEnd) -> tuple[str, str, str]:
    """Return the arm that leads, the other one, and at how many instances each does."""
    ahead, behind = found.candidate, found.baseline
    leads = found.candidate_leads, found.baseline_leads
    if found.difference < 0:
        ahead, behind, leads = behind, ahead, leads[::-1]
    return (
        *(ahead, behind),
        f"{ahead} leads at {count(leads[0])}, {behind} at {count(leads[1])} of them",
    )


def _e_value(value: float) -> str:
    return f"{value:.1f}" if value < 1000 else "above 1,000"
