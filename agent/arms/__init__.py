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

from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

from agent.arms.command.recipe import CommandOptions
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

ArmKind = Literal[
    "mini", "mini_retry", "durable", "loop", "staged", "command", "python", "gold", "null"
]


@dataclass(frozen=True)
class Arm:
    """An agent that solves tasks."""

    function: str
    """`module:function`, imported on first use: mini-swe-agent alone takes a second."""
    options: type[ArmOptions]
    needs_model: bool = True
    version: int = 1
    """Version of the agent, a part of an attempt's key.

    Raise it when the agent changes so much that its earlier attempts no longer represent it.
    Raising it buys every attempt again.
    """
    hears: bool = False
    """True if it reads the messages that people send to its attempts."""

    async def solve(self, task: Task, session: Session, options: Any) -> Outcome:
        """Solve a task through a session, with the options of the agent."""
        module, _, name = self.function.partition(":")
        outcome: Outcome = await getattr(import_module(module), name)(task, session, options)
        return outcome


ARMS: dict[ArmKind, Arm] = {
    "mini": Arm("agent.arms.mini:solve", MiniOptions),
    "mini_retry": Arm("agent.arms.mini_retry:solve", MiniRetryOptions),
    "durable": Arm("agent.arms.durable.arm:solve", DurableOptions, version=2, hears=True),
    "loop": Arm("agent.arms.loop.arm:solve", LoopOptions, hears=True),
    "staged": Arm("agent.arms.staged.arm:solve", StagedOptions, hears=True),
    "command": Arm("agent.arms.command.arm:solve", CommandOptions),
    "python": Arm("agent.arms.python:solve", PythonOptions),
    "gold": Arm("agent.arms.reference:gold", ArmOptions, needs_model=False),
    "null": Arm("agent.arms.reference:null", ArmOptions, needs_model=False),
}
