"""Several experiments in one report, and one experiment over time."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from flows.storage import report_files
from flows.storage.lake import Lake
from reports.errors import ReportError
from reports.questions.history.analysis import read_history
from reports.questions.history.section import describe_history
from reports.rendering import markdown, page
from tests.reports.lake_fixture import NOON, LakeBuilder

pytestmark = pytest.mark.sampled(3)


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


@pytest.mark.parametrize("number", [2, 3])
def test_experiments_of_different_days_are_no_changed_declaration(
    number: int, tmp_path: Path
) -> None:
    """Each was declared once, at a time of its own, and nothing warns of several declarations."""
    names = [f"run{n}" for n in range(number)]
    for day, name in enumerate(names):
        experiment(tmp_path, name, {"i": True}, declared_at=NOON + timedelta(days=day))
    report = report_files.read_several(Lake.existing(tmp_path), names)
    assert report.source.declarations == 1
    assert [note.text for note in report.notes if note.level == "warning"] == []


def test_one_revision_is_named(tmp_path: Path) -> None:
    """Experiments on the same instances with the same contents are of one revision."""
    for name in ("one", "two"):
        experiment(tmp_path, name, {"i": True})
    [note, *_] = report_files.read_several(Lake.existing(tmp_path), ["one", "two"]).notes
    assert (note.level, "of one revision (digest abc)" in note.text) == ("note", True)
    assert "No instance is left out." in note.text


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


def test_a_history_has_the_runs_in_order_of_time(tmp_path: Path) -> None:
    """A history holds the dated runs of one name in order, finds the run before each, and says
    which runs have other instances."""
    days = {1: True, 2: True, 3: False}
    for day, verdict in days.items():
        name = f"night-2026030{day}t020000"
        digest = "other" if day == 1 else "abc"
        experiment(tmp_path, name, {"i": verdict, "j": True}, dataset_digest=digest)
    experiment(tmp_path, "night-shift", {"i": True})
    found = read_history(tmp_path, "night-20260302t020000")
    assert (found.name, [run.arms[0].rate for run in found.runs]) == ("night", [1, 1, 0.5])
    first, second, third = [run.experiment for run in found.runs]
    assert found.before(third) == found.runs[1]
    assert found.before(second) is None  # the first night had other instances
    assert found.runs[0].began == NOON.replace(tzinfo=None)
    document = describe_history(found)
    assert first in document.sections[0].answer
    assert markdown.render(document).count("| mini |") == 3
    assert page.render(document).count("<svg") == 1
    with pytest.raises(ReportError, match="no run of 'day'"):
        read_history(tmp_path, "day")
