"""Which changed files of code the tests of a run reach, by imports and names."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from agent.index import Indexed, covering, query
from agent.project import Suite
from agent.testfiles import BY_CONVENTION
from agent.tools import TestRun
from agent.workspaces import Change, Workspace
from flows.jobs import projects
from flows.jobs.changes import read_changes


@dataclass(frozen=True)
class Reach:
    """The changed files of code in a language that the index reads."""

    code: tuple[str, ...] = ()
    unreached: tuple[str, ...] = ()
    """Those that no test of the run reaches."""
    unknown: tuple[str, ...] = ()
    """Those of which this is not known, as the run names no test files; and other changed files."""
    lines: dict[str, int] = field(default_factory=dict)
    """The number of added and removed lines of each. They count with their whole file."""


async def find_reach(
    workspace: Workspace,
    changes: Sequence[Change],
    tests: TestRun,
    suites: Sequence[Suite],
    patch: str,
) -> Reach:
    """Return what a run of the suites of all projects reaches of a patch in a workspace."""
    paths = [change.path for change in changes if change.status != "deleted"]
    ran = {name.partition("::")[0] for name in (*tests.passed, *tests.failed, *tests.errors)}

    def look(index: Indexed) -> Reach:
        symbols = index.symbols
        changed = [path for path in paths if not BY_CONVENTION.owns(path)]
        code = [path for path in changed if path in symbols.paths]
        if ran.isdisjoint(symbols.paths):
            return Reach(tuple(code), (), tuple(changed))
        covered = {path: covering(symbols, index.texts, [path]) for path in code}
        missed = [path for path in code if ran.isdisjoint(covered[path])]
        silent = projects.find_silent(suites, tests, symbols.paths)
        folders = tuple(f"{folder}/" for folder in silent if folder)
        unknown = [path for path in changed if path not in code]
        unknown += [
            path for path in missed if path.startswith(folders) or ("" in silent and covered[path])
        ]
        unreached = [path for path in missed if path not in unknown]
        return Reach(tuple(code), tuple(unreached), tuple(unknown))

    found = await query(workspace, look)
    counts = {path: added + removed for path, added, removed in read_changes(patch)}
    return replace(found, lines={path: counts.get(path, 0) for path in found.code})
