"""The two arms that know the answer."""

from dataclasses import replace

import pytest

from agent.errors import WorkspaceError
from tests.agent.arms.conftest import TASK, Solver


async def test_gold_submits_the_reference_change(solve: Solver) -> None:
    """The patch is the diff of the workspace after the reference change."""
    outcome, session = await solve(arm="gold")
    assert outcome.status == "submitted"
    assert outcome.patch.endswith("-goodbye\n+hello\n")
    assert [step.kind for step in session.steps] == ["command", "action"]


async def test_null_submits_nothing(solve: Solver) -> None:
    """The null arm submits the empty diff of an untouched workspace."""
    outcome, session = await solve(arm="null")
    assert (outcome.status, outcome.patch) == ("submitted", "")
    assert [step.request for step in session.steps] == [{"action": "diff"}]


async def test_gold_refuses_a_workspace_that_is_not_the_instances(solve: Solver) -> None:
    """A reference patch that does not apply means a wrong image, so the error is not retryable."""
    stranger = replace(TASK, reference_patch=TASK.reference_patch.replace("goodbye", "adieu"))
    with pytest.raises(WorkspaceError, match="does not apply") as caught:
        await solve(arm="gold", task=stranger)
    assert not caught.value.retryable


async def test_gold_refuses_a_task_without_a_reference(solve: Solver) -> None:
    """A Harbor task need not have a solution."""
    with pytest.raises(WorkspaceError, match=f"{TASK.id} has no reference solution") as caught:
        await solve(arm="gold", task=replace(TASK, reference_patch=""))
    assert not caught.value.retryable
