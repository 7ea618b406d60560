"""What can go wrong inside an attempt, divided by who has to act on it.

    AgentError
    ├── InvalidSpec            the operator wrote something that cannot be: one line, exit code 2
    ├── ContextWindowExceeded  the conversation no longer fits: a known end of the attempt
    ├── BudgetExhausted        the next call could cost more than is left; nothing was sent
    ├── OutOfTime              a limit on the time of the attempt or a part of it was reached
    ├── Undone                 what was done destroyed the repository, and was undone
    ├── Interrupted            the operator asked to stop: nothing is lost, run again to go on
    │   └── NotSent            before a call that was announced reached anyone who charges for it
    ├── LeaseHeld              another worker is on it and still alive: wait, and use its result
    ├── DivergenceError        the arm asks for something else than what is recorded
    └── InfrastructureError    the world broke: raised, retried by the flow, never a result
        ├── WorkspaceError     a container or shell is gone or cannot be had
        │   └── Destroyed      it runs, but what it holds cannot be kept any more
        ├── ModelError         the model cannot be reached or refuses every call
        └── JournalError       the journal cannot be read or written
            ├── OtherJournal   it is not the journal that is expected
            └── FencedError    another worker took the attempt over: stop at once

What a model can repair goes back to it as text, and a known end of an attempt is an
`agent.types.Outcome`: neither of them is an exception.
"""

from difflib import unified_diff


class AgentError(Exception):
    """Base of everything this package raises on purpose."""


class InvalidSpec(AgentError):
    """A specification that no retry can repair; the message says what to change."""


class ContextWindowExceeded(AgentError):
    """The model refuses the conversation for its length; the arm decides what that means."""


class BudgetExhausted(AgentError):
    """A budget does not allow the next call; a larger one lets the attempt go on from here."""


class OutOfTime(AgentError):
    """The time of the attempt, or of a part of it, is used up; the arm decides what that means."""


class Undone(AgentError):
    """What was done left no repository that can be kept: the workspace is as it was before.
    The message says so, and is for the model."""


class DivergenceError(AgentError):
    """At a recorded step the arm asked for something else than what the record answers.

    `recorded` and `requested` are the two requests as text; the message shows their
    unified diff. Nothing was bought.
    """

    def __init__(
        self, attempt_id: str, scope: str, seq: int, recorded: str, requested: str
    ) -> None:
        place = f"{scope}/{seq}" if scope else str(seq)
        diff = unified_diff(
            recorded.splitlines(), requested.splitlines(), "recorded", "requested", lineterm=""
        )
        super().__init__(
            "\n".join([f"attempt {attempt_id} asks for something new at step {place}:", *diff])
        )
        self.attempt_id, self.scope, self.seq = attempt_id, scope, seq
        self.recorded, self.requested = recorded, requested

    def __reduce__(self) -> tuple[object, ...]:
        fields = (self.attempt_id, self.scope, self.seq, self.recorded, self.requested)
        return (type(self), fields)


class Interrupted(AgentError):
    """The operator asked to stop; what is recorded is kept."""


class NotSent(Interrupted):
    """The stop came before an announced model call reached anyone who charges for it."""


class LeaseHeld(AgentError):
    """Another worker's lease has not expired: nothing is broken, and the result is on its way.

    `name` is that of the lease, which for an attempt is its id.
    """

    def __init__(self, message: str, name: str = "") -> None:
        super().__init__(message)
        self.name = name

    def __reduce__(self) -> tuple[object, ...]:
        return (LeaseHeld, (str(self), self.name))


class InfrastructureError(AgentError):
    """The attempt could not be carried out; nothing is known about the patch.

    `retryable` says whether trying again within minutes can help: a missing image or a
    rejected key stays missing, a dropped connection may not.
    """

    def __init__(self, message: str, *, retryable: bool = True) -> None:
        super().__init__(message)
        self.retryable = retryable

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), str(self), self.retryable))


class WorkspaceError(InfrastructureError):
    """The workspace cannot be opened, or stopped answering."""


class Destroyed(WorkspaceError):
    """What ran in the workspace left no repository in it, or more than can be kept."""

    def __init__(self, message: str, *, retryable: bool = False) -> None:
        super().__init__(message, retryable=retryable)


class ModelError(InfrastructureError):
    """The model gave no usable answer after every retry its error class allows."""


class JournalError(InfrastructureError):
    """The journal cannot be opened, read or written, or holds something else than was said."""


class OtherJournal(JournalError):
    """The journal is not the one that is expected. `found` is its id; None if there is none."""

    def __init__(self, found: str | None) -> None:
        super().__init__(f"another journal: {found}", retryable=False)
        self.found = found

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.found,))


class FencedError(JournalError):
    """The lease was taken over: its old holder may neither record nor buy.

    `name` is that of the lease, which for an attempt is its id.
    """

    def __init__(self, message: str, *, retryable: bool = False, name: str = "") -> None:
        super().__init__(message, retryable=retryable)
        self.name = name

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild_fenced, (str(self), self.retryable, self.name))


def _rebuild(kind: type[InfrastructureError], message: str, retryable: bool) -> InfrastructureError:
    return kind(message, retryable=retryable)


def _rebuild_fenced(message: str, retryable: bool, name: str) -> FencedError:
    return FencedError(message, retryable=retryable, name=name)
