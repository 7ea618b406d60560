"""The note on what a running experiment may conclude now."""

from __future__ import annotations

from collections.abc import Iterator

from reports.analysis.looks import Look
from reports.format import count, percent
from reports.types import Note

LEVEL = 0.05


def look_notes(look: Look | None) -> Iterator[Note]:
    """Yield the note on an unfinished primary comparison."""
    if look is None:
        return
    ahead, behind = look.candidate, look.baseline
    leads = look.candidate_leads, look.baseline_leads
    if look.difference < 0:
        ahead, behind, leads = behind, ahead, leads[::-1]
    decided = round(1 / LEVEL)
    if look.e_value >= decided:
        conclusion = f"{ahead} resolves more than {behind}, however often somebody looked"
    else:
        conclusion = f"nothing yet about {look.candidate} and {look.baseline}"
    yield Note(
        "note",
        f"The experiment is unfinished: {count(look.complete)} of {count(look.instances)} "
        "instances are complete in both arms of the primary comparison. What may be concluded now: "
        f"{conclusion} ({ahead} leads at {count(leads[0])}, {behind} at {count(leads[1])} of "
        f"them; e-value {_e_value(look.e_value)}, decided at {percent(LEVEL)} from {decided} on). "
        "P-values and intervals hold for one look at the end.",
    )


def _e_value(value: float) -> str:
    return f"{value:.1f}" if value < 1000 else "above 1,000"
