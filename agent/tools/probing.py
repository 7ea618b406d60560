"""A probe of a test runner: does it run an existing test at all?"""

import shlex
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from pathlib import PurePosixPath

from agent.tools.results import TestRun
from agent.tools.testing import run_paths
from agent.tools.tool import ToolSettings
from agent.workspaces import Workspace

_TRIES = 3
_MAX_LISTED = 2000
_SMALL_BYTES = 300
"""A smaller file may have no test in it."""

_LIST_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Probe:
    """The result of running existing test files on the base commit."""

    works: bool
    reason: str = ""
    """The reason why it does not work, in one line; '' if it works."""
    runs: list[TestRun] = field(default_factory=list)
    """The runs that were made, the deciding one last."""


async def probe(workspace: Workspace, settings: ToolSettings, test_files: Sequence[str]) -> Probe:
    """Run small existing test files, one after the other, until one shows that the runner works.

    It works if a test passes and nothing contradicts that. A runner that names no tests has to
    end with exit code 0. Files that the tests leave behind are not removed.

    Raises:
        Destroyed: the tests left no repository.
        WorkspaceError: the shell is gone.
    """
    runs: list[TestRun] = []
    for path in await _smallest(workspace, settings, test_files):
        runs.append(await run_paths(workspace, settings, [path]))
        if not problem_of(runs[-1]):
            return Probe(True, runs=runs)
    if not runs:
        return Probe(False, "the repository has no test file that its runner takes")
    tried = f"`{runs[-1].command}`: " if runs[-1].command else ""
    return Probe(False, f"{tried}{problem_of(runs[-1])}", runs)


async def _smallest(
    workspace: Workspace, settings: ToolSettings, test_files: Sequence[str]
) -> list[str]:
    """Return a few test modules, the smallest that probably have a test in them.

    They are of several folders, that with the most test files first: the tests in a folder of
    examples may be made to fail.
    """
    taken = [path for path in test_files if settings.runner.runs(path)]
    if not taken:
        return []
    names = shlex.join(f"./{path}" for path in taken[:_MAX_LISTED])
    done = await workspace.run(f"wc -c -- {names} 2>&1", timeout_s=_LIST_TIMEOUT_S)
    sizes: dict[str, int] = {}
    for line in done.output.splitlines():
        size, _, name = line.strip().partition(" ./")
        if size.isdecimal():
            sizes[name] = int(size)
    known = [path for path in taken if path in sizes]
    known.sort(
        key=lambda path: (not _is_named(path), sizes[path] < _SMALL_BYTES, sizes[path], path)
    )
    folders: dict[str, list[str]] = defaultdict(list)
    for path in known:
        folders[path.partition("/")[0]].append(path)
    largest = sorted(folders.values(), key=lambda paths: -len(paths))
    in_turn = chain.from_iterable(zip_longest(*largest))
    return [path for path in in_turn if path][:_TRIES]


def _is_named(path: str) -> bool:
    """Return True if a file has the name of a test, which not all files that a pattern takes do."""
    return "test" in PurePosixPath(path).name.lower()


def problem_of(run: TestRun) -> str:
    """Return the reason why a run does not show that the runner works, or ''."""
    if not run.problem and (run.exit_code == 0 or run.passed):
        return ""
    printed = run.output.removesuffix(f"[{run.problem}]").strip()
    last = printed.splitlines()[-1].strip()[:200] if printed else "no output"
    return f"{run.problem or f'exit code {run.exit_code}, and no test passed'}: {last}"
