"""Phase 8: the patch alone, cleaned, on a fresh copy of the repository."""

from agent.durable.review import review_whole
from agent.durable.state import FinalResult, State
from agent.durable.verification import verify
from agent.session import BASE, Session
from agent.workspaces.protocol import Workspace


async def verify_whole(state: State, session: Session) -> FinalResult:
    """Run every test that counts where only the patch was applied; the judgement of it."""
    patch = await cleaned_patch(state, session)
    async with session.branch("fresh", BASE, limit_s=state.profile.phase_limit_s) as fresh:
        await fresh.act("apply", {"patch": patch}, lambda w: _prepare(w, patch, state), type(None))
        found = await verify(state, fresh, named=state.named_tests, anchor_decides=True)
    review = await review_whole(state, patch, found, session.scope("review"))
    return FinalResult(patch, found, review)


async def cleaned_patch(state: State, session: Session) -> str:
    """What differs from the base commit but for the anchor test and stray files.

    A new file that no editing tool was asked for is stray: a command left it behind. The work
    tree is as before at the end.
    """
    before = session.tree

    async def clean(workspace: Workspace) -> list[str]:
        added = [each.path for each in await workspace.changes() if each.status == "added"]
        stray = [path for path in added if path not in state.written]
        await workspace.put_back(stray)
        return stray

    await session.act("clean", {"kept": sorted(state.written)}, clean, list[str])
    patch = await session.diff()
    await session.take(before)
    return patch


async def _prepare(workspace: Workspace, patch: str, state: State) -> None:
    """Apply the patch and put the anchor test beside it."""
    if patch:
        await workspace.apply(patch)
    anchor = state.reproduction.anchor
    if anchor is not None:
        await workspace.write(anchor.path, anchor.content.encode())
