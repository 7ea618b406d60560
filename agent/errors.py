"""Errors inside an attempt, grouped by who has to act on them.

    AgentError
    ├── InvalidSpec            the operator's specification is invalid: one line, exit code 2
    ├── MessageRefused         a message that its attempt cannot take: one line, exit code 2
    ├── ContextWindowExceeded  the conversation no longer fits: a known end of the attempt
    ├── BudgetExhausted        the next call could cost more than is left; nothing was sent
    │   └── BudgetReserved     calls in flight have reserved what it needs: wait for them
    ├── LimitReached           the attempt is at its limit: OutOfCalls or OutOfMoney
    ├── OutOfTime              a time limit of the attempt or a part of it was reached
    ├── Undone                 a step destroyed the repository and was undone
    ├── ToolFailed             a tool cannot continue: a known end of the attempt
    ├── TurnEnded              a person ended the turn while a tool was at work
    ├── CalledOff              concurrent work failed, so this work starts nothing more
    ├── Waiting                a person has not answered yet: the next message resumes it
    ├── Interrupted            the operator asked to stop: nothing is lost, a new run resumes
    │   └── NotSent            an announced call was stopped before it reached a provider
    ├── LeaseHeld              an active worker holds the attempt: wait for its result
    ├── DivergenceError        the arm's request differs from the recorded one
    └── InfrastructureError    broken infrastructure: raised, retried by the flow, never a result
        ├── Retryable          a tool failed for a reason that may pass: it is tried again first
        ├── WorkspaceError     a container or shell is gone or unavailable
        │   └── Destroyed      the workspace runs, but its content can no longer be saved
        ├── NoProgram          the program of a recipe, or what it needs, is not in the workspace
        ├── ModelError         the model is unreachable or rejects every call
        │   └── RequestRefused the provider rejects this one request as invalid
        └── JournalError       the journal cannot be read or written
            ├── OtherJournal   the journal is not the expected one
            └── FencedError    another worker acquired the attempt: stop at once

A problem that the model can repair goes back to the model as text. A known end of an attempt is an
`agent.types.Outcome`. Neither of them is an exception.
"""

from difflib import unified_diff
from typing import Any


def one_line(error: BaseException) -> str:
    """Return the text of an error in one line, or the name of its type if it has no text."""
    return " ".join(str(error).split()) or type(error).__name__


class AgentError(Exception):
    """Base of all errors that this package raises on purpose. All of them can be pickled."""

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.args, vars(self)))


class InvalidSpec(AgentError):
    """A specification that no retry can repair. The message says what to change."""


class MessageRefused(AgentError):
    """An attempt cannot take a message. Nothing was sent, and the message says why."""


class ContextWindowExceeded(AgentError):
    """The model rejects the conversation as too long. The arm decides how to continue."""


class BudgetExhausted(AgentError):
    """A budget does not allow the next call. With a larger budget, the attempt resumes here."""


class BudgetReserved(BudgetExhausted):
    """Calls in flight have reserved a part of the budget, and may leave enough of it."""


class OutOfTime(AgentError):
    """A time limit of the attempt or a part of it was reached. The arm decides what to do."""


class Undone(AgentError):
    """A step left no repository that can be saved, so the workspace was restored.

    The message says so and is written for the model.
    """


class DivergenceError(AgentError):
    """The arm's request at a recorded step differs from the recorded request.

    `recorded` and `requested` are the two requests as text. The message shows their unified diff.
    Nothing was bought.
    """

    def __init__(
        self, attempt_id: str, scope: str, seq: int, recorded: str, requested: str
    ) -> None:
        diff = unified_diff(
            recorded.splitlines(), requested.splitlines(), "recorded", "requested", lineterm=""
        )
        super().__init__(
            "\n".join(
                [f"attempt {attempt_id} makes a new request at step {place(scope, seq)}:", *diff]
            )
        )
        self.attempt_id, self.scope, self.seq = attempt_id, scope, seq
        self.recorded, self.requested = recorded, requested


class ToolFailed(AgentError):
    """A tool cannot do what it is for, whatever the model asks. The attempt ends, and says why."""


class TurnEnded(AgentError):
    """A person ended the turn before a tool had finished. The message is written for the model."""


class CalledOff(AgentError):
    """Other work of the same program or reply failed, so this work starts nothing more."""


class Waiting(AgentError):
    """The attempt waits for a person, and nothing runs meanwhile. The next message resumes it."""

    @classmethod
    def for_a(cls, wanted: str) -> "Waiting":
        """Return the error of an attempt that waits for a message, an answer or an approval."""
        return cls(f"waits for a person's {wanted}")


class Interrupted(AgentError):
    """The operator asked to stop. Recorded steps are kept."""


class NotSent(Interrupted):
    """The stop came before an announced model call reached a provider, so it costs nothing."""


class LeaseHeld(AgentError):
    """Another worker's lease has not expired. Nothing is broken, and its result will follow.

    `name` is the name of the lease. The lease of an attempt is named by the attempt's id.
    """

    def __init__(self, message: str, name: str = "") -> None:
        super().__init__(message)
        self.name = name


class InfrastructureError(AgentError):
    """The attempt could not be completed. The quality of the patch is unknown.

    `retryable` is True if a retry within minutes can help. A missing image stays missing and a
    rejected key stays rejected, but a dropped connection may recover.
    """

    retryable = True

    def __init__(self, message: str, *, retryable: bool | None = None) -> None:
        super().__init__(message)
        if retryable is not None:
            self.retryable = retryable


class Retryable(InfrastructureError):
    """A tool failed for a reason that may pass, such as an unreachable service.

    The tool is tried again after `after_s` seconds. If that does not help, the attempt could not be
    completed.
    """

    def __init__(
        self, message: str, *, after_s: float = 1.0, retryable: bool | None = None
    ) -> None:
        super().__init__(message, retryable=retryable)
        self.after_s = after_s


class WorkspaceError(InfrastructureError):
    """The workspace cannot be opened or stopped responding."""


class Unfit(WorkspaceError):
    """An image or folder in which no work is possible, now or later. Nothing was bought in it.

    The message says in one line what is missing and what to do.
    """

    retryable = False

    @classmethod
    def of(cls, what: str, reason: str) -> "Unfit":
        """Return the error of an image or folder `what`."""
        return cls(f"{what} cannot hold a workspace: {' '.join(reason.split())}")


class Destroyed(WorkspaceError):
    """A command left the workspace without a repository, or with more than can be saved."""

    retryable = False


class NoProgram(InfrastructureError):
    """The program of a recipe, or what it needs, is not in the workspace, or got no answer."""

    retryable = False


class ModelError(InfrastructureError):
    """The model gave no usable answer after all retries that its error class allows.

    `is_free` is True if the last request is known to have cost nothing.
    """

    is_free = False

    def __init__(
        self, message: str, *, retryable: bool | None = None, is_free: bool | None = None
    ) -> None:
        super().__init__(message, retryable=retryable)
        if is_free is not None:
            self.is_free = is_free


class RequestRefused(ModelError):
    """The provider rejects the content of one request. The message quotes the provider.

    The author of the request decides what to do: an arm of ours has a bug, another program may
    send a different request.
    """

    retryable = False
    is_free = True


class JournalError(InfrastructureError):
    """The journal cannot be opened, read or written, or its content contradicts the caller."""


class OtherJournal(JournalError):
    """The journal is not the expected one. `found` is its id, or None if there is none."""

    def __init__(self, found: str | None) -> None:
        super().__init__(f"another journal: {found}", retryable=False)
        self.found = found


class FencedError(JournalError):
    """The lease was acquired by another worker. Its old holder may neither record nor buy.

    `name` is the name of the lease. The lease of an attempt is named by the attempt's id.
    """

    retryable = False

    def __init__(self, message: str, *, retryable: bool | None = None, name: str = "") -> None:
        super().__init__(message, retryable=retryable)
        self.name = name


def _rebuild(kind: type[AgentError], args: tuple[object, ...], state: dict[str, Any]) -> AgentError:
    error = kind.__new__(kind, *args)
    vars(error).update(state)
    return error


def place(scope: str, seq: int) -> str:
    """Return scope and number of a step as they are shown and typed, such as `plan/3`."""
    return f"{scope}/{seq}" if scope else str(seq)


class LimitReached(AgentError):
    """A limit of the attempt was reached. The best change so far is submitted."""


class OutOfCalls(LimitReached):
    """The attempt has made all its model calls."""


class OutOfMoney(LimitReached):
    """The attempt has spent all its money."""
