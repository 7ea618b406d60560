"""The two arms that know the answer: `gold` applies it, `null` does nothing.

Both go through a real workspace, so a `gold` attempt that is graded as resolved shows that
image, workspace, patch and grader work together, and a `null` attempt that is not shows
that the tests of the instance notice.
"""

import base64

from agent.arms.options import ArmOptions
from agent.errors import WorkspaceError
from agent.session.session import Session
from agent.types import Outcome, Task

_APPLY_TIMEOUT_S = 60.0


async def gold(task: Task, session: Session, options: ArmOptions) -> Outcome:
    """Apply the reference patch and hand in what the workspace then differs by.

    Raises:
        WorkspaceError: the patch does not apply, so the image is not the instance's.
    """
    # base64 carries carriage returns, other encodings and binary hunks through a shell.
    encoded = base64.b64encode(task.reference_patch.encode("utf-8", "surrogateescape")).decode()
    applied = await session.run(
        f"base64 -d <<'PATCH' | git apply --whitespace=nowarn -\n{encoded}\nPATCH",
        timeout_s=_APPLY_TIMEOUT_S,
    )
    if applied.exit_code != 0:
        raise WorkspaceError(
            f"{task.id}: the reference patch does not apply: {applied.output.strip()[-500:]}",
            retryable=False,
        )
    return Outcome("submitted", await session.diff(), "reference patch")


async def null(task: Task, session: Session, options: ArmOptions) -> Outcome:
    """Hand in what an untouched workspace differs by: nothing."""
    return Outcome("submitted", await session.diff(), "no change")
