"""A probe of the test runner as a step of an attempt."""

from agent.arms.durable.verification import probe_runner
from agent.runners import runner_of
from agent.session.session import Session
from agent.tools import ToolSettings
from tests.agent.repositories import with_files
from tests.agent.workspaces_on_host import HostWorkspaces

TEST = "def test_a():\n    open('left.txt', 'w').close()\n"


async def test_a_probe_is_one_step_and_leaves_nothing() -> None:
    """Files that the probed tests write are removed from the work tree."""
    workspaces = HostWorkspaces(with_files({"tests/test_a.py": TEST}))
    async with Session.start(attempt_id="attempt", models={}, workspaces=workspaces) as session:
        found = await probe_runner(ToolSettings(), ["tests/test_a.py"], session.scope("probe"))
        assert (found.works, found.runs[0].passed) == (True, ["tests/test_a.py::test_a"])
        assert await session.diff() == ""


async def test_a_runner_that_destroys_the_repository_does_not_work() -> None:
    """The repository is restored, and the attempt continues without the runner."""
    destroy = runner_of("rm -rf .git; : {paths}")
    workspaces = HostWorkspaces(with_files({"tests/test_a.py": TEST}))
    async with Session.start(attempt_id="attempt", models={}, workspaces=workspaces) as session:
        found = await probe_runner(ToolSettings(runner=destroy), ["tests/test_a.py"], session)
        assert not found.works
        assert found.reason
        assert await session.diff() == ""
