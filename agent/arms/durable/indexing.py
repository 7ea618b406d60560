"""Phase 2: the test files of the repository."""

from agent.arms.durable.profile import RECORDED_MAP, FullProfile, LeanProfile
from agent.arms.durable.state import Repository
from agent.index import Indexed, find_tests, query
from agent.session.session import Session
from agent.workspaces.protocol import Workspace


async def look_around(profile: LeanProfile | FullProfile, session: Session) -> Repository:
    """Return the base commit's test files."""

    async def look(workspace: Workspace) -> Repository:
        return await query(workspace, answer)

    def answer(indexed: Indexed) -> Repository:
        return Repository(find_tests(indexed.symbols, indexed.texts))

    request = {"map_tokens": RECORDED_MAP[profile.preset]}  # what recorded steps are found by
    return await session.act("look around", request, look, Repository, depends_on={})
