"""Flaws of replies, by the calls that the arm of a cell accepts."""

from collections.abc import Sequence
from typing import get_args

from agent.conversation import replies
from agent.models.spec import RecordedSpec
from agent.session.steps import Step
from flows.experiments.cells import Cell

FLAWS: tuple[replies.Flaw, ...] = get_args(replies.Flaw)


def reader_of(cell: Cell, steps: Sequence[Step]) -> replies.Reader | None:
    """Return the reader of the replies in these steps of an attempt.

    Return None where it is unknown whether a text is a call: for a function of another package and
    for recorded models. In a chat, a text goes to the person.
    """
    arm, model = cell.arm, cell.experiment.model_of(cell.arm)
    if arm.agent == "command":
        return replies.reader_of_programs(steps)
    specs = arm.options.models(model) if model else {}
    is_recorded = any(isinstance(spec, RecordedSpec) for spec in specs.values())
    if arm.agent == "python" or is_recorded or getattr(arm.options, "interactive", False):
        return None

    def is_native(role: str) -> bool:
        return getattr(specs.get(role, model), "native_tools", True)

    if arm.agent in ("mini", "mini_retry"):
        return replies.reader_of_mini(is_native)
    return replies.reader_of_conversations(is_native)
