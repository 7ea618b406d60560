"""A function of another package as an arm."""

import importlib
from collections.abc import Awaitable, Callable
from importlib.metadata import entry_points
from typing import Any

from agent.arms.options import PythonOptions
from agent.errors import InvalidSpec
from agent.session.session import Session
from agent.types import Outcome, Task

GROUP = "durabench.arms"
"""The group of entry points under which packages announce arms."""


async def solve(task: Task, session: Session, options: PythonOptions) -> Outcome:
    """Let the function solve the task.

    Raises:
        InvalidSpec: there is no such function, or it returns no outcome.
    """
    outcome = await load(options.function)(task, session, options)
    if not isinstance(outcome, Outcome):
        raise InvalidSpec(f"{options.function} returns {type(outcome).__name__}, not an Outcome")
    return outcome


def load(name: str) -> Callable[[Task, Session, PythonOptions], Awaitable[Any]]:
    """Return the function `package.module:function`, or the function of an entry point.

    Raises:
        InvalidSpec: there is no such function.
    """
    path = name
    for announced in entry_points(group=GROUP, name=name):
        path = announced.value
    module, _, attribute = path.partition(":")
    try:
        function: Any = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidSpec(f"agent {name}: {error}; name it as package.module:function") from None
    if not callable(function):
        raise InvalidSpec(f"agent {name} is no function")
    return function  # type: ignore[no-any-return]


def list_announced_arms() -> set[str]:
    """Return the names of the arms that installed packages announce."""
    return {point.name for point in entry_points(group=GROUP)}
