"""The change to submit: what was made on purpose, without new tests and leftovers."""

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from agent.index import query
from agent.session.session import Session
from agent.testfiles import BY_CONVENTION
from agent.workspaces.protocol import Change as WorkspaceChange
from agent.workspaces.protocol import Workspace

_COMPILED = ".pyc"


@dataclass(frozen=True)
class SubmittedChange:
    """The difference from the base commit that is submitted."""

    patch: str
    files: tuple[str, ...] = ()
    """Changed paths that are in the patch."""
    new_tests: dict[str, str] = field(default_factory=dict)
    """New test files by path. They are left out, since those of the task's author replace them."""
    strays: tuple[str, ...] = ()
    """New files that a command left behind. They are left out, as are compiled files."""


async def change_of(
    session: Session, written: Collection[str], *, tests_count: bool = False
) -> SubmittedChange:
    """Return the change in the work tree, which stays as it is.

    A new file is stray if no editing tool was asked to write it (`written`), unless it is a renamed
    file of the base commit or a module that the change imports. If `tests_count`, as for a task
    that asks for tests, new tests are submitted where nothing else changed.
    """
    before = session.tree
    asked = {"written": sorted(written), "tests_count": tests_count}
    change = await session.act(
        "change", asked, lambda w: _change(w, written, tests_count), SubmittedChange, depends_on={}
    )
    await session.take(before)
    return change


async def _change(
    workspace: Workspace, written: Collection[str], tests_count: bool
) -> SubmittedChange:
    changes = await workspace.changes()
    added = [change.path for change in changes if change.status == "added"]
    owns = await _owner(workspace, [path for path in added if path in written])
    tests = [path for path in added if owns(path) and path in written]
    strays = await _strays(workspace, changes, written)
    left_out = {*tests, *strays}
    files = [change.path for change in changes if change.path not in left_out]
    if tests_count and not files:
        files, tests, left_out = tests, [], {*strays}
    contents = {path: (await workspace.read(path)).decode("utf-8", "replace") for path in tests}
    patch = await workspace.diff(without=sorted(left_out))
    named = [path for path in strays if not path.endswith(_COMPILED)]
    return SubmittedChange(patch, tuple(files), contents, tuple(named))


async def _owner(workspace: Workspace, paths: Sequence[str]) -> Callable[[str], bool]:
    """Return what tells files of tests from others, as the repository states it."""
    if all(map(BY_CONVENTION.owns, paths)):
        return BY_CONVENTION.owns
    stated = await query(workspace, lambda each: each.symbols.test_files)
    return lambda path: stated.owns(path) or BY_CONVENTION.owns(path)


async def _strays(
    workspace: Workspace, changes: Sequence[WorkspaceChange], written: Collection[str]
) -> list[str]:
    unwritten = [c.path for c in changes if c.status == "added" and c.path not in written]
    if not unwritten:
        return []
    deleted = [change.path for change in changes if change.status == "deleted"]
    gone = (await workspace.originals(deleted)).values()
    patch = await workspace.diff()
    return [
        path
        for path in unwritten
        if not _is_imported(path, patch) and not await _holds_one_of(workspace, path, gone)
    ]


def _is_imported(path: str, patch: str) -> bool:
    """Return True if an added line of another file imports the module at `path`."""
    pure = PurePosixPath(path)
    if pure.suffix != ".py" or BY_CONVENTION.owns(path):
        return False
    name = re.escape(pure.parent.name if pure.stem == "__init__" else pure.stem)
    return re.search(rf"^\+\s*(import|from)\b[^#\n]*\b{name}\b", patch, re.MULTILINE) is not None


async def _holds_one_of(workspace: Workspace, path: str, contents: Collection[bytes]) -> bool:
    """Return True if a file's content is one of `contents`. An unreadable file matches none."""
    if not contents:
        return False
    try:
        return await workspace.read(path) in contents
    except OSError:
        return False


async def add_test(session: Session, path: str, content: str) -> None:
    """Write a new test into the session's work tree."""
    encoded = content.encode()
    await session.act(
        "write anchor",
        {"path": path},
        lambda w: w.write(path, encoded),
        type(None),
        depends_on=encoded,
    )
