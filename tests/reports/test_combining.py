"""Several experiments in one report, and one experiment over time."""

from pathlib import Path
from typing import Any

import pytest

from flows.storage import report_files
from flows.storage.lake import Lake
from reports.errors import ReportError
from tests.reports.lake_fixture import LakeBuilder


def experiment(root: Path, name: str, resolved: dict[str, bool], **declared: Any) -> None:
    """Write an experiment with one arm and these verdicts."""
    builder = LakeBuilder(root, name)
    builder.declare(["mini"], [*resolved], **declared)
    for instance, verdict in resolved.items():
        outcome = "resolved" if verdict else "unresolved"
        builder.cell("mini", instance, outcome, attempt_id=f"{name}-{instance}")


def test_experiments_are_compared_on_common_instances(tmp_path: Path) -> None:
    """Arms of several experiments are compared on the instances that all plan, and the report says
    which are left out and whether the revision is the same."""
    experiment(tmp_path, "one", {"i": True, "j": False, "k": True})
    experiment(tmp_path, "two", {"k": False, "j": True, "l": True}, dataset_digest="other")
    report = report_files.read_several(Lake.existing(tmp_path), ["one", "two"])
    assert [(arm.name, arm.resolved, arm.planned) for arm in report.arms] == [
        ("mini@one", 1, 2),
        ("mini@two", 1, 2),
    ]
    table = report.comparisons[0].table
    assert (table.only_baseline, table.only_candidate) == (1, 1)
    assert report.audits == ()
    assert report.notes[0].level == "warning"
    assert "Compares one and two on the 2 instances" in report.notes[0].text
    assert "revisions cannot be compared" in report.notes[0].text
    assert "left out: one 1, two 1" in report.notes[0].text
    report_files.write(Lake.existing(tmp_path), report)
    assert "mini@two" in (tmp_path / "reports" / "one+two" / "index.html").read_text()


@pytest.mark.parametrize(
    ("names", "changes", "message"),
    [
        (["one", "one"], {}, "cannot be compared with itself"),
        (["one", "three"], {}, "no experiment 'three'"),
        (["one", "two"], {"dataset": "x.jsonl"}, "different datasets .one: toy.jsonl; two: x.jso"),
        (["one", "two"], {"dataset_digest": "x"}, "different revisions of the dataset"),
        (["one", "two"], {"instance_ids": ["z"]}, "one and two plan no common instance"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    names: list[str], changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    """Unknown and equal experiments, other datasets and other revisions are refused."""
    experiment(tmp_path, "one", {"i": True})
    experiment(tmp_path, "two", {"i": True}, **changes)
    with pytest.raises(ReportError, match=message):
        report_files.read_several(Lake.existing(tmp_path), names)
