"""Scopes of an attempt that may know of each other."""

from collections.abc import Sequence

from agent.journal import RecordedStep


class Scopes:
    """The scopes of an attempt: which are conversations or branches, and when each ended."""

    def __init__(self, steps: Sequence[RecordedStep]) -> None:
        """Take all steps of the attempt, in order."""
        self._conversations = {step.scope for step in steps if step.kind == "model"}
        self._branches = {step.bench for step in steps if step.bench}
        self._last = {scope: step.ordinal for step in steps for scope in list_around(step.scope)}
        """By scope, the ordinal of the last step in it or inside it."""

    def find_conversation(self, scope: str) -> str | None:
        """Return the innermost conversation around a scope, or None."""
        around = list_around(scope)[1:]
        return next((outer for outer in around if outer in self._conversations), None)

    def can_pass(self, source: str, step: RecordedStep) -> bool:
        """Return True if something left in the scope `source` can be in the request of a step.

        It was left in a scope around or inside the scope of the step, or in a neighbour that had
        ended, but not in another branch from the same tree.
        """
        inner = list_around(source)
        shared = next(scope for scope in list_around(step.scope) if scope in inner)
        if shared in (source, step.scope):
            return True
        left, right = (
            next(scope for scope in reversed(list_around(one)) if len(scope) > len(shared))
            for one in (source, step.scope)
        )
        return self._last[left] < step.ordinal and not {left, right} <= self._branches


def list_around(scope: str) -> list[str]:
    """Return a scope and all scopes around it, the innermost first."""
    parts = scope.split("/") if scope else []
    return ["/".join(parts[:length]) for length in range(len(parts), -1, -1)]
