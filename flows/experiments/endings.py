"""Ways in which a run of an attempt ends: with an outcome, which is final, or interrupted."""

import json
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Literal

from agent.errors import BudgetExhausted, Interrupted, Waiting
from agent.types import Outcome


@dataclass(frozen=True)
class Interruption:
    """Reason why an attempt did not end. A later run resumes it."""

    status: Literal["infrastructure", "budget_stop", "interrupted", "refused", "waiting"]
    detail: str

    @classmethod
    def of(cls, error: Exception) -> "Interruption":
        """Return the interruption that an error means."""
        match error:
            case BudgetExhausted():
                return cls("budget_stop", str(error))
            case Interrupted():
                return cls("interrupted", str(error))
            case Waiting():
                return cls("waiting", str(error))
            case _:
                return cls("infrastructure", f"{type(error).__name__}: {error}")


@dataclass(frozen=True)
class Run:
    """The run that ended or interrupted an attempt."""

    started_at: datetime
    duration_s: float


def to_text(outcome: Outcome, run: Run) -> str:
    """Serialize an outcome and its run for the journal."""
    times = {"started_at": run.started_at.isoformat(), "duration_s": run.duration_s}
    return json.dumps({**asdict(outcome), "run": times})


def from_text(text: str, unknown: Run) -> tuple[Outcome, Run]:
    """Parse the result of `to_text`. The run is `unknown` if an earlier release recorded none."""
    content = json.loads(text)
    times = content.pop("run", None)
    run = unknown
    if times is not None:
        run = Run(datetime.fromisoformat(times["started_at"]), times["duration_s"])
    return Outcome(**content), run
