"""Phase 2: the repository map in a few thousand tokens, and the test files."""

from agent.arms.durable.state import Repository
from agent.index import Indexed, find_tests, query
from agent.session.session import Session
from agent.types import Task
from agent.workspaces.protocol import Workspace


async def look_around(task: Task, map_tokens: int, session: Session) -> Repository:
    """Return the base commit's test files, and a map of the repository for the task.

    Without tokens for a map, none is drawn.
    """

    async def look(workspace: Workspace) -> Repository:
        return await query(workspace, answer)

    def answer(indexed: Indexed) -> Repository:
        shown = indexed.draw(task.statement, map_tokens) if map_tokens else ""
        return Repository(shown, find_tests(indexed.symbols, indexed.texts))

    return await session.act(
        "look around", {"map_tokens": map_tokens}, look, Repository, depends_on={}
    )
