"""Each command that COMMANDS.md lists is run by a journey, on Docker and on the host."""

import ast
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import typer
from typer._click.core import Command
from typer.core import TyperGroup

from flows.cli.app import app

HERE = Path(__file__).parent
COMMANDS = HERE.parents[1] / "flows" / "COMMANDS.md"
_ROW = re.compile(r"^\| `durabench ([^`]+)` \|", re.MULTILINE)
SOMETIMES = {"full", "skip", "skipif", "xfail"}
"""Marks of tests that do not run each time."""


class Journey(NamedTuple):
    """A test, as described by its source."""

    test: str
    commands: list[str]
    has_environment: bool
    marks: set[str]


def listed() -> list[str]:
    """Return the commands in the tables, with their options if they have several rows."""
    rows = _ROW.findall(COMMANDS.read_text())
    names = [_names(row) for row in rows]
    options = [re.findall(r" (--[a-z-]+)", row) for row in rows]
    several = [names.count(each) > 1 for each in names]
    found = [
        " ".join([name, *(given if is_one_of_several else [])])
        for name, given, is_one_of_several in zip(names, options, several, strict=True)
    ]
    return sorted(set(found))


def _names(row: str) -> str:
    """Return the names of a command and its subcommand, without its arguments."""
    words = [*itertools.takewhile(re.compile("[a-z-]+").fullmatch, row.split())]
    return " ".join(word for word in words if not word.startswith("-"))


def journeys() -> Iterator[Journey]:
    """Yield the tests of this folder that are marked as journeys."""
    for path in sorted(HERE.glob("test_*.py")):
        module = ast.parse(path.read_text())
        always = {
            mark for each in module.body if isinstance(each, ast.Assign) for mark in _marks(each)
        }
        for test in module.body:
            if not isinstance(test, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            for decorator in test.decorator_list:
                if isinstance(decorator, ast.Call) and _marks(decorator) == {"journey"}:
                    yield Journey(
                        f"{path.name}::{test.name}",
                        [
                            str(each.value)
                            for each in ast.walk(decorator)
                            if isinstance(each, ast.Constant)
                        ],
                        "environment" in [each.arg for each in test.args.args],
                        always.union(*map(_marks, test.decorator_list)),
                    )


def _marks(node: ast.AST) -> set[str]:
    """Return the names after `pytest.mark.` in a piece of source."""
    return set(re.findall(r"pytest\.mark\.(\w+)", ast.unparse(node)))


def takes_environment(command: str) -> bool:
    """Return True if a command has the option --environment."""
    found: Command = typer.main.get_command(app)
    for name in command.split():
        if isinstance(found, TyperGroup):
            found = found.commands[name]
    return any("--environment" in each.opts for each in found.params)


def test_each_command_has_a_journey() -> None:
    """A new row of COMMANDS.md needs one, and a command that was removed has none."""
    named = {command for each in journeys() for command in each.commands}
    missing = [
        f'run `durabench {command}` in a test marked `@pytest.mark.journey("{command}")`'
        for command in listed()
        if command not in named
    ]
    assert missing == []
    assert sorted(named - set(listed())) == []


def test_a_command_with_an_environment_runs_in_both() -> None:
    """One journey of it has the fixture `environment`, which is the host and Docker in turn."""
    in_both = {command for each in journeys() if each.has_environment for command in each.commands}
    missing = [each for each in listed() if takes_environment(each) and each not in in_both]
    assert missing == []


def test_a_journey_always_runs() -> None:
    """None is left to `make test-all`."""
    assert [each.test for each in journeys() if each.marks & SOMETIMES] == []
