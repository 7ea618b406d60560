"""Functions as tools of a durable agent."""

import functools
import socket
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from agent import DurableAgent
from agent.errors import InvalidSpec
from agent.library import make_tool


def double(x: int) -> int:
    """Double a number."""
    return 2 * x


def read(path: str) -> str:
    """Read."""
    return path


def add(*numbers: int) -> int:
    """Add."""
    return sum(numbers)


def listen(to: socket.socket) -> None:
    """Listen."""


def look(at: "Unknown") -> None:  # type: ignore[name-defined]  # noqa: F821
    """Look."""


def copy(json: int, schema: int = 2) -> int:
    """Copy."""
    return json + schema


@pytest.mark.parametrize(
    ("tools", "reason"),
    [
        ([double, double], "two tools have the name double"),
        ([read], "two tools have the name read"),
        ([add], r"the model cannot give \*numbers"),
        ([listen], "tool listen: JSON has no type for a parameter"),
        ([look], "tool look: the type of a parameter is unknown: name 'Unknown'"),
        ([functools.partial(double, x=1)], "is not a tool: define a function"),
        (["double"], "'double' is not a tool"),
    ],
)
def test_what_cannot_be_a_tool_is_refused(tools: Sequence[Callable[..., Any]], reason: str) -> None:
    """Before a run, with the reason."""
    with pytest.raises(InvalidSpec, match=reason):
        DurableAgent("openai/gpt-5", tools=tools, capabilities=["files"])


def test_parameters_may_have_any_names() -> None:
    """No warning is printed."""
    with warnings.catch_warnings(action="error"):
        assert {*make_tool(copy).schema["function"]["parameters"]["properties"]} == {
            "json",
            "schema",
        }


@pytest.mark.parametrize(
    ("model", "name", "folder", "reason"),
    [
        (None, "first", None, "None is not a model"),
        ("openai/gpt-5", "a/b", None, "'a/b' is not a name of a run"),
        ("openai/gpt-5", "first", "nothing", "folder .*nothing: .* does not exist"),
    ],
)
async def test_a_run_that_cannot_start_says_why(
    model: Any, name: str, folder: str | None, reason: str, tmp_path: Path
) -> None:
    """In one line, without a call of the model."""
    where = tmp_path / folder if folder else None
    agent = DurableAgent(model, tools=[double], state=tmp_path, folder=where)
    with pytest.raises(InvalidSpec, match=reason):
        await agent.run("Double 2.", name)
