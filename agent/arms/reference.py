"""The two arms that need no model: `gold` applies the reference patch, `null` does nothing.

Both use a real workspace. A `gold` attempt that is graded as resolved shows that image, workspace,
patch and grader work together. A `null` attempt that is graded as unresolved shows that the
instance's tests detect a missing fix.
"""

import base64

from agent.arms.options import ArmOptions
from agent.errors import WorkspaceError
from agent.session.session import Session
from agent.types import Outcome, Task

_APPLY_TIMEOUT_S = 60.0
_SOLVE_TIMEOUT_S = 1800.0


async def gold(task: Task, session: Session, options: ArmOptions) -> Outcome:
    """Apply the reference patch, or run the reference script, and submit the resulting diff.

    Raises:
        WorkspaceError: the task has neither, or the patch does not apply, so the image is not the
            instance's.
    """
    if task.reference_script:
        await session.run(task.reference_script, timeout_s=_SOLVE_TIMEOUT_S)
        return Outcome("submitted", await session.diff(), "reference script")
    if not task.reference_patch.strip():
        raise WorkspaceError(f"{task.id} has no reference solution", retryable=False)
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
    """Submit the diff of an untouched workspace, which is empty."""
    return Outcome("submitted", await session.diff(), "no change")
