"""The existing tests of changed files."""

from collections.abc import Sequence

from agent.index import covering, query
from agent.session.session import Session
from agent.workspaces.protocol import Workspace

MOST_COVERING = 3


async def tests_covering(paths: Sequence[str], session: Session) -> list[str]:
    """Return the test files that most likely cover some files, by imports and names."""

    async def look(workspace: Workspace) -> list[str]:
        found = await query(workspace, lambda each: covering(each.symbols, each.texts, paths))
        return [test.path for test in found[:MOST_COVERING]]

    return await session.act(
        "tests covering", {"paths": list(paths)}, look, list[str], depends_on={}
    )
