"""Test protection: changes to tests and to their configuration are reverted.

After every tool that may have changed files, the files that decide whether the task is solved are
compared with the base commit and restored, whatever was done to git. In files that contain other
settings too, such as `pyproject.toml`, only the sections of test runners count. New modules that
Python could import in place of pytest or of the standard library are removed.
"""

import configparser
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from agent.errors import WorkspaceError
from agent.paths import is_test_file, is_test_support, shadows_a_module
from agent.workspaces import Change, Workspace

_INI_SECTIONS = ("pytest", "tool:pytest", "testenv", "tox")
_TOML_TOOLS = ("pytest", "tox")


@dataclass(frozen=True)
class Protection:
    """Protected files and their exceptions."""

    allowed: Mapping[str, bytes] = field(default_factory=dict)
    """Files that must exist with exactly this content: the anchor test."""
    new_tests: bool = False
    """True if test files may be added, as by the writer of the anchor test.

    Test configuration may not be added.
    """
    is_on: bool = True
    """False protects nothing."""

    async def enforce(self, workspace: Workspace) -> list[str]:
        """Restore changed protected files. Return their paths, for the model.

        Compiled Python files of protected files are removed too, because Python would use them
        instead. Their paths are not returned.

        Raises:
            Destroyed: there is no repository any more.
            WorkspaceError: the shell is gone.
        """
        if not self.is_on:
            return []
        changes = await workspace.changes()
        undone = [change.path for change in changes if await self._forbids(workspace, change)]
        if undone:
            await workspace.put_back(undone)
        kept = [
            path for path, content in self.allowed.items() if await _keep(workspace, path, content)
        ]
        named = {path for path in undone if not path.endswith(".pyc")} | set(kept)
        return sorted(path.encode(errors="replace").decode() for path in named)

    async def _forbids(self, workspace: Workspace, change: Change) -> bool:
        path = _source(change.path)
        if change.path in self.allowed:
            return False
        sections = _SECTIONS.get(PurePosixPath(path).name)
        if sections is not None and not is_test_file(path):
            return change.status == "typechange" or await _sections_differ(workspace, path)
        if is_test_support(path) or (change.status == "added" and shadows_a_module(path)):
            return True
        return _is_of_tests(path) and not (self.new_tests and change.status == "added")


def explain(put_back: Sequence[str]) -> str:
    """Return the message to the model about protected files that were restored."""
    return (
        "Test files, conftest files and the configuration of test runners are kept as they are "
        "in the base commit, and no new file may take the place of pytest or of a module of the "
        "standard library, so changes to these were undone: "
        f"{', '.join(put_back)}. Solve the task in the code itself; tests that are added or "
        "changed do not count."
    )


def _source(path: str) -> str:
    """Return the source file of a compiled file."""
    pure = PurePosixPath(path)
    if pure.suffix != ".pyc":
        return path
    folder = pure.parent.parent if pure.parent.name == "__pycache__" else pure.parent
    return str(folder / f"{pure.name.partition('.')[0]}.py")


def _is_of_tests(path: str) -> bool:
    """Return True for a test file, or a file at the path of a test folder."""
    return is_test_file(path) or is_test_file(f"{path}/any")


async def _keep(workspace: Workspace, path: str, content: bytes) -> bool:
    """Ensure that a file has that content and is no link. Return True if it had to be written.

    Raises:
        WorkspaceError: the file cannot be written.
    """
    if await workspace.holds(path, content):
        return False
    await workspace.put_back([path])
    try:
        await workspace.write(path, content)
    except OSError as error:
        raise WorkspaceError(f"a protected file cannot be written: {error}") from error
    return True


async def _sections_differ(workspace: Workspace, path: str) -> bool:
    """Return True if the test runners' sections of a file changed, or the file cannot be read."""
    sections = _SECTIONS[PurePosixPath(path).name]
    before = await workspace.original(path)
    try:
        now = await workspace.read(path)
    except FileNotFoundError:
        now = b""
    except OSError:
        return True
    try:
        return sections((before or b"").decode()) != sections(now.decode())
    except (ValueError, configparser.Error):
        return True


def _toml_sections(text: str) -> dict[str, Any]:
    """Return the tables `[tool.pytest...]` and `[tool.tox...]` of a `pyproject.toml`."""
    tools = tomllib.loads(text).get("tool", {})
    return {name: table for name, table in tools.items() if name.startswith(_TOML_TOOLS)}


def _ini_sections(text: str) -> dict[str, dict[str, str]]:
    """Return the sections of pytest and tox of a `setup.cfg` or `tox.ini`.

    Lines are split by Python's `splitlines`, as by pytest's own parser, so that a form feed cannot
    hide a section.
    """
    parser = configparser.RawConfigParser(default_section="")
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string("\n".join(text.splitlines()))
    return {
        name: dict(parser[name])
        for name in parser.sections()
        if name.strip().startswith(_INI_SECTIONS)
    }


_SECTIONS = {
    "pyproject.toml": _toml_sections,
    "setup.cfg": _ini_sections,
    "tox.ini": _ini_sections,
}
