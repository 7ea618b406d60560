"""The existing tests that a model names, each of which is run or refused aloud."""

from collections.abc import Sequence
from dataclasses import dataclass
from posixpath import normpath

from agent.checks.running import known_test_files
from agent.runners import TestRunner
from agent.session.session import Session
from agent.workspaces.protocol import Workspace


@dataclass(frozen=True)
class NamedFiles:
    """The files that names mean, and the names that mean none."""

    files: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    """One line for each name that cannot be run, with the reason."""


async def find_named(
    names: Sequence[str], test_files: Sequence[str], runner: TestRunner, session: Session
) -> NamedFiles:
    """Return the test files that a model means, in the order of its names.

    A file of the repository counts although its name is that of no test. `test_files` are the test
    files of the base commit. Only for names of others is a step made.
    """
    inside = [name.strip().removeprefix(f"{session.root}/") for name in names]
    meant = {name: known_test_files([name], test_files, runner) for name in inside}
    others = [name for name in meant if not meant[name]]
    exist = await _existing(others, session) if others else {}
    refused = []
    for name in others:
        if name not in exist:
            refused.append(f"{name} is not a file of the repository")
        elif not runner.runs(exist[name]):
            refused.append(f"{name} is not taken by the test command of the repository")
        else:
            meant[name] = (exist[name],)
    files = dict.fromkeys(file for name in inside for file in meant[name])
    return NamedFiles(tuple(files), tuple(refused))


async def _existing(names: Sequence[str], session: Session) -> dict[str, str]:
    """Return the paths of the names that are files of the base tree."""
    paths = {name: normpath(name.partition("::")[0].strip() or "?") for name in names}

    async def look(workspace: Workspace) -> list[str]:
        inner = [path for path in paths.values() if not path.startswith(("/", ".."))]
        return [*await workspace.originals(inner)]

    found = await session.act("named tests", {"names": list(names)}, look, list[str], depends_on={})
    return {name: path for name, path in paths.items() if path in found}
