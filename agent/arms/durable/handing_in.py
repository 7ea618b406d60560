"""Phase 8: the cleaned patch alone, on a fresh copy of the repository."""

from collections.abc import Sequence

from agent.arms.durable.review import review_whole
from agent.arms.durable.state import FinalResult, State, Verification
from agent.arms.durable.verification import verify
from agent.errors import OutOfTime
from agent.session.session import BASE, Session
from agent.workspaces.protocol import Workspace


async def verify_whole(state: State, session: Session) -> FinalResult:
    """Run all relevant tests with only the patch applied. Return the result and its review."""
    patch = await cleaned_patch(state, session)
    try:
        async with session.branch("fresh", BASE, limit_s=state.profile.phase_limit_s) as fresh:
            found = await _verified(state, patch, fresh)
    except OutOfTime as error:
        # Raises again if the time of the whole attempt is over.
        await session.scope("late").take(session.tree)
        found = Verification((), (str(error),))
    review = await review_whole(state, patch, found, session.scope("review"))
    return FinalResult(patch, found, review)


async def _verified(state: State, patch: str, fresh: Session) -> Verification:
    """Apply the patch to a fresh copy and run the tests. An empty patch fails."""
    if not patch:
        return Verification((), ("nothing was changed",))
    problem = await fresh.act("apply", {"patch": patch}, lambda w: _prepare(w, patch, state), str)
    if problem:
        return Verification((), (f"the patch does not apply to the base commit: {problem}",))
    return await verify(state, fresh, named=state.named_tests, anchor_decides=True)


async def cleaned_patch(state: State, session: Session) -> str:
    """Return the diff from the base commit without the anchor test and stray files.

    A new file is stray if no editing tool was asked to write it, so that a command left it behind.
    A renamed file of the base commit is not stray. The work tree is restored at the end.
    """
    before = session.tree

    async def clean(workspace: Workspace) -> list[str]:
        changes = await workspace.changes()
        gone = [await workspace.original(c.path) for c in changes if c.status == "deleted"]
        added = [c.path for c in changes if c.status == "added" and c.path not in state.written]
        stray = [path for path in added if not await _holds_one_of(workspace, path, gone)]
        await workspace.put_back(stray)
        return stray

    await session.act("clean", {"kept": sorted(state.written)}, clean, list[str])
    patch = await session.diff()
    await session.take(before)
    return patch


async def _holds_one_of(workspace: Workspace, path: str, contents: Sequence[bytes | None]) -> bool:
    """Return True if a file's content is one of `contents`. An unreadable file matches none."""
    if not contents:
        return False
    try:
        return await workspace.read(path) in contents
    except OSError:
        return False


async def _prepare(workspace: Workspace, patch: str, state: State) -> str:
    """Apply the patch and add the anchor test. Return git's error, or '' if the patch applies."""
    try:
        await workspace.apply(patch)
    except ValueError as error:
        return str(error)
    anchor = state.reproduction.anchor
    if anchor is not None:
        await workspace.write(anchor.path, anchor.content.encode())
    return ""
