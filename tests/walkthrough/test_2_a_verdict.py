"""A verdict: swebench's own functions decide on a patch of an instance in a workspace."""

from pathlib import Path

import pytest

from agent.workspaces import HostWorkspace
from eval import upstream
from eval.audit import audit
from eval.grading import grade
from eval.instances import load
from eval.selection import Selection, select
from eval.types import Evaluation, Instance
from tests.suspect import HOOK


async def verdict(instance: Instance, patch: str, cache: Path) -> Evaluation:
    def repository(folder: Path) -> None:
        upstream.checkout(instance.repo, instance.base_commit, folder, cache)

    workspace = await HostWorkspace.open(prepare=repository, base_commit=instance.base_commit)
    try:
        return await grade(instance, patch, workspace, timeout_s=60)
    finally:
        await workspace.close()


def test_instances_are_rows_of_a_dataset() -> None:
    """A dataset is `bundled`, a Hugging Face id, a file or a task repo.

    Instances are selected by ids, regex, slice or sample.
    """
    bundled = load("bundled")
    assert len(bundled) >= 12
    chosen = select(bundled, Selection(regex="tidyini", sample=2, seed=7))
    assert chosen == select(bundled, Selection(regex="tidyini", sample=2, seed=7))
    assert {instance.repo for instance in chosen} == {"durabench/tidyini"}


@pytest.mark.slow
async def test_the_reference_patch_resolves_and_no_patch_does_not(tmp_path: Path) -> None:
    """The tests in FAIL_TO_PASS and PASS_TO_PASS decide, and the result of each is recorded."""
    instance = load("bundled")[0]
    gold = await verdict(instance, instance.patch, tmp_path)
    assert (gold.outcome, gold.resolved) == ("resolved", True)
    assert set(gold.fail_to_pass_success) == set(instance.fail_to_pass)
    null = await verdict(instance, "", tmp_path)
    assert (null.outcome, null.resolved) == ("unresolved", False)
    assert set(null.fail_to_pass_failure) == set(instance.fail_to_pass)


@pytest.mark.slow
async def test_a_patch_that_does_not_apply_is_an_outcome_of_its_own(tmp_path: Path) -> None:
    """The cell is not resolved, and the report shows the reason."""
    instance = load("bundled")[0]
    broken = instance.patch.replace("@@ -1", "@@ -9999").replace("\n ", "\n never there ")
    evaluation = await verdict(instance, broken, tmp_path)
    assert evaluation.outcome == "patch_failed"
    assert not evaluation.resolved


@pytest.mark.slow
async def test_an_audit_doubts_a_patch_that_changes_the_runner(tmp_path: Path) -> None:
    """The official verdict does not change. The audit marks the patch as suspect, with reasons."""
    instance = load("bundled")[0]
    evaluation = await verdict(instance, HOOK, tmp_path)
    assert evaluation.resolved
    audited = audit(instance, evaluation)
    assert audited.verdict == "suspect"
    assert "test_configuration" in {reason.kind for reason in audited.reasons}
