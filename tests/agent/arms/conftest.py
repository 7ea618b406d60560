"""Fixtures: a task and a repository for arms to work on."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from agent import models
from agent.arms import ARMS, ArmKind
from agent.arms.options import ArmOptions
from agent.models.protocol import Model
from agent.session.session import Session
from agent.types import Outcome, Task
from tests.agent.arms.loop.conftest import Attempts
from tests.agent.repositories import with_files
from tests.agent.workspaces_on_host import HostWorkspaces

REFERENCE = """\
diff --git a/greeting.txt b/greeting.txt
--- a/greeting.txt
+++ b/greeting.txt
@@ -1 +1 @@
-goodbye
+hello
"""

TASK = Task(
    id="example__greeting-1", statement="say hello", base_commit="HEAD", reference_patch=REFERENCE
)

SUBMISSION = [
    "printf 'hello\\n' > greeting.txt",
    "git diff -- greeting.txt > patch.txt",
    "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && cat patch.txt",
]
"""Commands that solve the task."""

make_repository = with_files({"greeting.txt": "goodbye\n"})
"""A repository with one committed file."""

Solver = Callable[..., Awaitable[tuple[Outcome, Session]]]


@pytest.fixture
def solve() -> Solver:
    """Return a function that runs an arm on the host and returns its outcome and session."""

    async def run(
        model: dict[str, Any] | Model | None = None,
        *,
        arm: ArmKind = "mini",
        options: ArmOptions | None = None,
        task: Task = TASK,
    ) -> tuple[Outcome, Session]:
        built = models.build(models.parse(model), task, 0) if isinstance(model, dict) else model
        async with Session.start(
            attempt_id="attempt",
            models={"": built} if built else {},
            workspaces=HostWorkspaces(make_repository),
        ) as session:
            return await ARMS[arm].solve(task, session, options or ARMS[arm].options()), session

    return run


@pytest.fixture
def attempts(tmp_path: Path) -> Attempts:
    """Return a new attempt that several runs share."""
    return Attempts(tmp_path)
