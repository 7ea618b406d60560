"""The arms under comparison. Each solves one task through a session.

| agent | description |
|---|---|
| `mini` | mini-swe-agent's own `DefaultAgent`, its own SWE-bench prompts and limits |
| `mini_retry` | mini-swe-agent, best of k by the tests that it can run |
| `durable` | plans, reproduces, implements and verifies step by step: see `agent.arms.durable` |
| `loop` | one conversation with capabilities that are switched on: see `agent.capabilities` |
| `staged` | explores, plans, builds each subtask, verifies and repairs: see `agent.arms.staged` |
| `command` | any program that speaks to a model API: see `agent.arms.command` |
| `python` | a function of another package: see `agent.arms.python` |
| `gold` | applies the reference patch: proves that image and grader work |
| `null` | changes nothing: proves that the tests detect this |
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal

from agent.arms import reference
from agent.arms.command.options import CommandOptions
from agent.arms.durable.options import DurableOptions
from agent.arms.options import (
    ArmOptions,
    LoopOptions,
    MiniOptions,
    MiniRetryOptions,
    PythonOptions,
    StagedOptions,
)
from agent.session.session import Session
from agent.types import Outcome, Task

Solve = Callable[[Task, Session, Any], Awaitable[Outcome]]
"""Solves a task through a session, with the options of the agent."""

ArmKind = Literal[
    "mini", "mini_retry", "durable", "loop", "staged", "command", "python", "gold", "null"
]


@dataclass(frozen=True)
class Arm:
    """An agent that solves tasks."""

    solve: Solve
    options: type[ArmOptions]
    needs_model: bool
    version: int = 1
    """Version of the agent, a part of an attempt's key.

    Raise it when the agent changes so much that its earlier attempts are those of another agent.
    Raising it buys every attempt again.
    """
    hears: bool = False
    """True if it reads the messages that people send to its attempts."""


async def _mini(task: Task, session: Session, options: MiniOptions) -> Outcome:
    # Imported on first use: the package takes a second to import and reads its own settings.
    from agent.arms import mini

    return await mini.solve(task, session, options)


async def _mini_retry(task: Task, session: Session, options: MiniRetryOptions) -> Outcome:
    from agent.arms import mini_retry

    return await mini_retry.solve(task, session, options)


async def _durable(task: Task, session: Session, options: DurableOptions) -> Outcome:
    from agent.arms.durable import arm

    return await arm.solve(task, session, options)


async def _loop(task: Task, session: Session, options: LoopOptions) -> Outcome:
    from agent.arms.loop import arm

    return await arm.solve(task, session, options)


async def _staged(task: Task, session: Session, options: StagedOptions) -> Outcome:
    from agent.arms.staged import arm

    return await arm.solve(task, session, options)


async def _command(task: Task, session: Session, options: CommandOptions) -> Outcome:
    from agent.arms.command import arm

    return await arm.solve(task, session, options)


async def _python(task: Task, session: Session, options: PythonOptions) -> Outcome:
    from agent.arms import python

    return await python.solve(task, session, options)


ARMS: dict[ArmKind, Arm] = {
    "mini": Arm(_mini, MiniOptions, needs_model=True),
    "mini_retry": Arm(_mini_retry, MiniRetryOptions, needs_model=True),
    "durable": Arm(_durable, DurableOptions, needs_model=True, version=2, hears=True),
    "loop": Arm(_loop, LoopOptions, needs_model=True, hears=True),
    "staged": Arm(_staged, StagedOptions, needs_model=True, hears=True),
    "command": Arm(_command, CommandOptions, needs_model=True),
    "python": Arm(_python, PythonOptions, needs_model=True),
    "gold": Arm(reference.gold, ArmOptions, needs_model=False),
    "null": Arm(reference.null, ArmOptions, needs_model=False),
}
