"""The change so far on a fresh copy of the repository, tested against the base commit."""

from collections.abc import Sequence
from dataclasses import dataclass

from agent.capabilities.base import Crew
from agent.checks import checked, find_covering
from agent.index import query
from agent.journal import TreeRef
from agent.models.patches import parse
from agent.session.session import BASE, Session
from agent.workspaces.protocol import Workspace

_EVERYTHING: tuple[str, ...] = (".",)
"""The paths for a test command that always runs all tests."""


@dataclass(frozen=True)
class Verified:
    """A change and what its tests say."""

    patch: str
    tree: TreeRef
    """The work tree with the change."""
    tests: tuple[str, ...] = ()
    """The tests that were run; none if the repository has none for it."""
    failures: tuple[str, ...] = ()
    output: str = ""
    left_out: tuple[str, ...] = ()
    """One line for each covering test file that was not run."""
    unproven: str = ""
    """The reason why the tests that were run show nothing, or ''."""

    @property
    def passes(self) -> bool:
        """True if there is a change and no test speaks against it."""
        return not self.failures

    @property
    def error(self) -> str:
        """A summary of the failures, to compare with others."""
        return "\n".join([*self.failures, self.output])


async def verify(crew: Crew, session: Session, number: int) -> Verified:
    """Test the change so far.

    The existing tests of the changed files run without and with it, and those that it adds with it.
    A test command that takes no paths runs all tests.
    """
    patch = await session.diff()
    if not patch:
        return Verified(patch, session.tree, failures=("nothing was changed",))
    async with session.branch(f"verify-{number}", BASE) as fresh:
        return await _verified(crew, patch, session.tree, fresh)


async def _verified(crew: Crew, patch: str, tree: TreeRef, fresh: Session) -> Verified:
    files = parse(patch)
    added = await _tests_among([file.name for file in files if file.old_path is None], fresh)
    tests, new = _EVERYTHING, tuple[str, ...]()
    if crew.tools.runner.takes_paths:
        changed = sorted({path for file in files for path in file.paths if path not in added})
        tests, new = tuple(await find_covering(changed, patch, fresh)), tuple(added)
    if not tests and not new:
        return Verified(patch, tree)
    found = await checked(patch, tests, crew.tools, crew.protection, fresh, new)
    return Verified(
        patch,
        tree,
        found.tests,
        found.failures,
        found.output,
        found.left_out,
        found.unproven,
    )


async def _tests_among(paths: Sequence[str], fresh: Session) -> list[str]:
    """Return the files from which the repository's test runner collects tests."""
    if not paths:
        return []

    async def look(workspace: Workspace) -> list[str]:
        collects = (await query(workspace, lambda each: each.symbols.test_files)).collects
        return [path for path in paths if collects(path)]

    asked = {"paths": list(paths)}
    return await fresh.act("tests among", asked, look, list[str], depends_on={})
