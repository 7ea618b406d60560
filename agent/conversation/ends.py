"""The words for the ends of attempts: the same cause has the same word in every arm."""

from agent.conversation.exchanges import End
from agent.conversation.limits import OutOfCalls, OutOfMoney
from agent.errors import AgentError, OutOfTime
from agent.types import OutcomeStatus


def ended(cause: AgentError | End) -> OutcomeStatus:
    """Return the status of an attempt that a known end has cut off, with or without a change."""
    match cause:
        case OutOfCalls() | "out_of_rounds":
            return "out_of_steps"
        case OutOfMoney():
            return "out_of_budget"
        case OutOfTime() | "out_of_time":
            return "out_of_time"
        case _:
            return "gave_up"
