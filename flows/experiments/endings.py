"""Ways in which a run of an attempt ends: with an outcome, which is final, or interrupted."""

import json
from dataclasses import asdict, dataclass
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


def to_text(outcome: Outcome) -> str:
    """Serialize an outcome for the journal."""
    return json.dumps(asdict(outcome))


def from_text(text: str) -> Outcome:
    """Parse the result of `to_text`."""
    content = json.loads(text)
    content.pop("run", None)  # earlier releases recorded the time of the last run
    return Outcome(**content)
