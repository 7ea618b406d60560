"""Phase 2: the repository map in a few thousand tokens, and the test files."""

from agent.arms.durable.state import Repository
from agent.index import find_tests, query, read_sources
from agent.session.session import Session
from agent.types import Task
from agent.workspaces.protocol import Workspace


async def look_around(task: Task, map_tokens: int, session: Session) -> Repository:
    """Return the base commit's test files, and a map of the repository for the task.

    Without tokens for a map, none is drawn.
    """

    async def look(workspace: Workspace) -> Repository:
        if not map_tokens:
            return Repository("", find_tests((await read_sources(workspace)).texts))
        return await query(
            workspace,
            lambda each: Repository(each.draw(task.statement, map_tokens), find_tests(each.texts)),
        )

    return await session.act(
        "look around", {"map_tokens": map_tokens}, look, Repository, depends_on={}
    )
