"""An attempt consists of a task, a workspace, a model, a session and an arm.

Read these files in order: each test states one fact about the system and shows it.
"""

import subprocess
from pathlib import Path

from agent import models
from agent.arms import ARMS
from agent.arms.options import MiniOptions
from agent.session.session import Session
from agent.types import Task
from agent.workspaces import HostWorkspace
from tests.agent.workspaces_on_host import HostWorkspaces

COMMANDS = [
    "echo hello > greeting.txt",
    "git diff -- greeting.txt > patch.txt",
    "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && cat patch.txt",
]


def repository(folder: Path) -> None:
    """Fill a workspace with a repository of one file.

    A benchmark uses the instance's repository.
    """
    folder.mkdir()
    (folder / "greeting.txt").write_text("goodbye\n")
    identity = ["-c", "user.name=walkthrough", "-c", "user.email=w@example.invalid"]
    for command in (["init", "-q"], ["add", "."], [*identity, "commit", "-qm", "base"]):
        subprocess.run(["git", *command], cwd=folder, check=True)


async def test_an_arm_turns_a_task_into_an_outcome_with_a_patch() -> None:
    """This is all of `agent/` in ten lines. The model is a list of replies."""
    task = Task(id="demo", statement="Say hello.", base_commit="HEAD", reference_patch="")
    spec = models.parse({"provider": "scripted", "replies": [{"command": c} for c in COMMANDS]})
    session = Session.start(
        attempt_id="demo",
        models={"": models.build(spec, task, seed=0)},
        workspaces=HostWorkspaces(repository),
    )
    async with session:
        outcome = await ARMS["mini"].solve(task, session, MiniOptions())

    assert outcome.status == "submitted"
    assert "-goodbye\n+hello\n" in outcome.patch
    # Every action outside the program is one numbered step with its request, result and price.
    assert [step.kind for step in session.steps] == ["model", "command"] * 3


async def test_a_workspace_is_a_shell_in_a_private_repository() -> None:
    """Each command runs in a new login shell at the repository's root.

    The diff is against the base.
    """
    workspace = await HostWorkspace.open(prepare=repository, base_commit="HEAD")
    try:
        done = await workspace.run("cd / && echo more >> ~-/greeting.txt; exit 3", timeout_s=10)
        assert (done.exit_code, done.timed_out) == (3, False)
        assert (await workspace.run("pwd", timeout_s=10)).output.strip() == workspace.root
        slow = await workspace.run("sleep 60", timeout_s=0.2)
        assert slow.timed_out
        await workspace.write("new.txt", b"untracked files count\n")
        assert "+untracked files count" in await workspace.diff()
    finally:
        await workspace.close()
    assert not Path(workspace.root).exists()


async def test_a_simulated_model_is_right_as_often_as_it_is_told() -> None:
    """The model knows the reference patch and draws once per attempt whether to use it.

    Draws depend on seeds, not on order.
    """
    task = Task("demo", "Say hello.", "HEAD", PATCH)
    spec = models.parse({"provider": "simulated", "skill": 0.3})
    right = [models.build(spec, task, seed).right for seed in range(500)]  # type: ignore[attr-defined]
    assert 0.25 < sum(right) / len(right) < 0.35
    assert right == [models.build(spec, task, seed).right for seed in range(500)]  # type: ignore[attr-defined]


PATCH = """\
diff --git a/greeting.txt b/greeting.txt
--- a/greeting.txt
+++ b/greeting.txt
@@ -1 +1 @@
-goodbye
+hello
"""
