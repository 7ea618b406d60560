"""The arms under comparison: each solves one task through a session.

| agent | what it is |
|---|---|
| `mini` | mini-swe-agent's own `DefaultAgent`, its own SWE-bench prompts and limits |
| `durable` | plans, reproduces, makes and verifies step by step: see `agent.durable` |
| `gold` | applies the reference patch: proves that image and grader work |
| `null` | changes nothing: proves that the tests notice |
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from agent.arms import reference
from agent.arms.options import ArmOptions
from agent.session import Session
from agent.types import Outcome, Task

Solve = Callable[[Task, Session, ArmOptions], Awaitable[Outcome]]

ArmKind = Literal["mini", "durable", "gold", "null"]


@dataclass(frozen=True)
class Arm:
    """A way to solve a task."""

    solve: Solve
    needs_model: bool


async def _mini(task: Task, session: Session, options: ArmOptions) -> Outcome:
    # Imported on first use: the package takes a second to import and reads its own settings.
    from agent.arms import mini

    return await mini.solve(task, session, options)


async def _durable(task: Task, session: Session, options: ArmOptions) -> Outcome:
    from agent.durable import arm

    return await arm.solve(task, session, options)


ARMS: dict[ArmKind, Arm] = {
    "mini": Arm(_mini, needs_model=True),
    "durable": Arm(_durable, needs_model=True),
    "gold": Arm(reference.gold, needs_model=False),
    "null": Arm(reference.null, needs_model=False),
}
