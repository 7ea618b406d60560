"""The existing tests of changed files."""

from collections.abc import Collection, Sequence

from agent.index import changed_names, covering, query
from agent.session.session import Session
from agent.workspaces.protocol import Workspace

MOST_COVERING = 5


async def find_covering(
    paths: Sequence[str], patch: str, session: Session, *, among: Collection[str] | None = None
) -> list[str]:
    """Return the test files that most likely cover a patch of some files, the likeliest first.

    With `among`, such as the tests of the base commit, others take no place.
    """
    names = changed_names(patch)

    async def look(workspace: Workspace) -> list[str]:
        found = await query(
            workspace, lambda each: covering(each.symbols, each.texts, paths, names, among)
        )
        return [test.path for test in found[:MOST_COVERING]]

    return await session.act(
        "tests covering", {"paths": list(paths)}, look, list[str], depends_on=names
    )
