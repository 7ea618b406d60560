"""Gradings lost to infrastructure stay in the denominator until they are repeated."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from agent.errors import WorkspaceError
from eval import instances
from flows.cells import attempts
from flows.display.errors import IncompleteRun
from flows.experiments import workspaces
from flows.grade import grade
from flows.storage import report_files
from flows.storage.lake import Lake
from reports.types import Report

pytestmark = [pytest.mark.usefixtures("prefect"), pytest.mark.slow]

FIRST, SECOND, THIRD = instances.load("bundled")[:3]


@pytest.mark.full
async def test_infrastructure_stays_in_the_denominator_and_is_tried_again(
    lake_path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A prediction whose workspace cannot be opened stays in the denominator, and the next run
    grades it."""
    path = tmp_path / "preds.json"
    patches = [(FIRST, FIRST.patch), (SECOND, "no diff"), (THIRD, THIRD.patch)]
    content = {
        instance.instance_id: {"model_name_or_path": "somebody", "model_patch": patch}
        for instance, patch in patches
    }
    path.write_text(json.dumps(content))
    opened, real = [], workspaces._open

    async def broken(instance: Any, *arguments: Any, **options: Any) -> Any:
        opened.append(instance.instance_id)
        if instance.instance_id == THIRD.instance_id:
            raise WorkspaceError("the disk is on fire")
        return await real(instance, *arguments, **options)

    monkeypatch.setattr(workspaces, "_open", broken)
    monkeypatch.setattr(attempts.evaluate, "retry_delay_seconds", [0, 0])
    with pytest.raises(IncompleteRun, match="1 of 3 predictions could not be graded"):
        await grade(path, "x", environment="host", lake=lake_path)
    assert opened.count(THIRD.instance_id) == 3
    expected = {"resolved": 1, "patch_failed": 1, "infrastructure": 1}
    assert states(lake_path) == expected
    [cell] = [c for c in read(lake_path).cells if c.state == "infrastructure"]
    assert (cell.instance_id, cell.reason) == (THIRD.instance_id, "the disk is on fire")

    monkeypatch.setattr(workspaces, "_open", real)
    await grade(path, "x", environment="host", lake=lake_path)
    assert states(lake_path) == {"resolved": 2, "patch_failed": 1}


def read(lake_path: str) -> Report:
    return report_files.read(Lake.existing(lake_path), "x")


def states(lake_path: str) -> dict[str, int]:
    """Return the only arm's cells by state, after checking that all three are planned."""
    built = read(lake_path)
    [arm] = built.arms
    found = Counter(cell.state for cell in built.cells)
    assert arm.planned == found.total() == 3
    assert arm.resolved == found["resolved"]
    return dict(found)
