"""The change so far on a fresh copy of the repository, tested against the base commit."""

from dataclasses import dataclass

from agent.capabilities.base import Crew
from agent.checks import checked, tests_covering
from agent.journal import TreeRef
from agent.models.patches import parse
from agent.paths import is_test_module
from agent.session.session import BASE, Session

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
    added = [file.name for file in files if file.old_path is None and is_test_module(file.name)]
    tests, new = _EVERYTHING, tuple[str, ...]()
    if crew.tools.runner.takes_paths:
        changed = sorted({path for file in files for path in file.paths if path not in added})
        tests, new = tuple(await tests_covering(changed, fresh)), tuple(added)
    if not tests and not new:
        return Verified(patch, tree)
    found = await checked(patch, tests, crew.tools, crew.protection, fresh, new)
    return Verified(patch, tree, found.tests, found.failures, found.output, found.unproven)
