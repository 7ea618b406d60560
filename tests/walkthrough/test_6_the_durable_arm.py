"""The durable arm: only evidence opens its gates, never a model's claim."""

from pathlib import Path
from typing import Any

import pytest

from agent import models
from agent.arms import ARMS
from agent.arms.durable.options import DurableOptions
from agent.session.session import Session
from agent.types import Outcome, Task
from eval import upstream
from eval.instances import load
from tests.agent.models.simulations import TRUTHFUL
from tests.agent.workspaces_on_host import HostWorkspaces

pytestmark = pytest.mark.slow

INSTANCE = next(each for each in load("bundled") if each.instance_id == "durabench__slotwise-2")


SHORT = {"plan_turns": 2, "candidates": {"high": 1, "medium": 1, "low": 1}}
"""A profile for attempts that fail: one candidate per step, and at most two plans."""


async def solve(
    cache: Path, profile: dict[str, Any] | None = None, **simulated: Any
) -> tuple[Outcome, Session]:
    """Solve a bundled task on the host with a simulated model that errs only as stated."""
    task = Task(
        INSTANCE.instance_id,
        INSTANCE.problem_statement,
        INSTANCE.base_commit,
        reference_patch=INSTANCE.patch,
    )

    def repository(folder: Path) -> None:
        upstream.checkout(INSTANCE.repo, INSTANCE.base_commit, folder, cache)

    spec = models.parse({"provider": "simulated", **TRUTHFUL, **simulated})
    session = Session.start(
        attempt_id="durable",
        models={"": models.build(spec, task, seed=0)},
        workspaces=HostWorkspaces(repository, INSTANCE.base_commit),
    )
    async with session:
        options = DurableOptions.model_validate({"profile": {"preset": "full", **(profile or {})}})
        return await ARMS["durable"].solve(task, session, options), session


async def test_an_accepted_patch_has_evidence(tmp_path: Path) -> None:
    """The reproduction test failed before the edit and passes after it; at the end the patch
    alone was tested on a fresh copy."""
    outcome, session = await solve(tmp_path, skill=1)
    report = outcome.report
    assert report is not None
    assert outcome.status == "submitted"
    assert (report["reproduced"], report["agent_verdict"]) == (True, "accepted")
    [final] = report["finals"]
    assert all(run["exit_code"] == 0 for run in final["evidence"])
    # The final copy is a branch with its own workspace, like each candidate.
    assert len({step.scope for step in session.steps}) > 3


async def test_a_models_word_opens_no_gate(tmp_path: Path) -> None:
    """Tests stop wrong patches that the implementer reports as done and the reviewers
    accept."""
    outcome, _ = await solve(tmp_path, SHORT, skill=0, reviewer_accuracy=0)
    assert outcome.report is not None
    [step, *_] = outcome.report["steps"]
    evidence = [run for each in step["candidates"] for run in each["evidence"]]
    assert any(run["exit_code"] != 0 for run in evidence)
    assert outcome.report["agent_verdict"] != "accepted"


async def test_tests_are_protected(tmp_path: Path) -> None:
    """An implementer that edits tests instead of code fails: the tests are restored, and the
    patch contains none."""
    outcome, _ = await solve(tmp_path, SHORT, skill=1, cheating=1)
    assert outcome.report is not None
    assert outcome.report["agent_verdict"] != "accepted"
    assert "b/tests/" not in outcome.patch
