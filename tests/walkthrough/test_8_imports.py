"""Imports: results of other systems, which are compared like our own."""

import json
from pathlib import Path

import pytest

from eval import instances
from flows.formats import atif, exports, filing
from flows.formats.tables import import_table
from flows.storage import report_files
from flows.storage.lake import Lake

PUBLISHED = """\
model,instance_id,resolved,cost_usd
large,a__b-1,true,0.50
large,a__b-2,true,0.40
small,a__b-1,false,0.10
small,a__b-2,true,
"""


def test_a_published_table_is_compared(tmp_path: Path) -> None:
    """One row per arm and instance is enough. Without a declaration, all comparisons are
    exploratory."""
    (tmp_path / "results.csv").write_text(PUBLISHED)
    lake = Lake.existing(tmp_path / "lake")
    import_table(tmp_path / "results.csv", "published", {}, str(lake.root))
    built = report_files.read(lake, "published")
    assert [(arm.name, arm.resolved, arm.planned) for arm in built.arms] == [
        ("large", 2, 2),
        ("small", 1, 2),
    ]
    assert [pair.role for pair in built.comparisons] == ["exploratory"]


def test_what_a_table_does_not_say_stays_unknown(tmp_path: Path) -> None:
    """A missing cost is not zero: the arm's cost is a lower bound, and the comparison of costs
    omits the pair."""
    (tmp_path / "results.csv").write_text(PUBLISHED)
    lake = Lake.existing(tmp_path / "lake")
    import_table(tmp_path / "results.csv", "published", {}, str(lake.root))
    built = report_files.read(lake, "published")
    small = built.arms[1].cost
    assert (small.usd, small.incomplete_cells, small.is_lower_bound) == (0.10, 1, True)
    assert [pair.priced_pairs for pair in built.comparisons] == [1]


def test_a_trajectory_of_another_harness_goes_in_and_out(tmp_path: Path) -> None:
    """ATIF is a format of many harnesses. Its calls, tokens and costs become rows like our own, and
    `durabench export --atif` writes them again."""
    metrics = {"prompt_tokens": 9, "completion_tokens": 1, "cost_usd": 0.5}
    step = {"source": "agent", "message": "done", "metrics": metrics}
    content = {
        "schema_version": "ATIF-v1.7",
        "agent": {"name": "theirs", "version": "1.0", "model_name": "large"},
        "steps": [{"step_id": 1, **step}],
    }
    (tmp_path / "a__b-1.json").write_text(json.dumps(content))
    lake = Lake.existing(tmp_path / "lake")
    filing.file(atif.read([tmp_path / "a__b-1.json"]), "theirs", None, str(lake.root))
    [arm] = report_files.read(lake, "theirs").arms
    assert (arm.name, arm.cost.usd, arm.tokens.total) == ("theirs-large", 0.5, 10)
    [path] = exports.trajectories("theirs", tmp_path / "out", str(lake.root))
    [again] = json.loads(path.read_text())["steps"]
    assert (again["source"], again["message"]) == ("agent", "done")
    assert metrics.items() <= again["metrics"].items()


@pytest.mark.slow
async def test_predictions_of_others_are_graded(prefect: None, tmp_path: Path) -> None:
    """A predictions file becomes an experiment. The file names the arm."""
    from flows.grade import grade

    instance = instances.load("bundled")[0]
    line = {
        "instance_id": instance.instance_id,
        "model_name_or_path": "theirs",
        "model_patch": instance.patch,
    }
    (tmp_path / "all_preds.jsonl").write_text(json.dumps(line) + "\n")
    lake = Lake.existing(tmp_path / "lake")
    await grade(tmp_path / "all_preds.jsonl", "foreign", environment="host", lake=str(lake.root))
    [verdict] = lake.rows("evaluations", "foreign")
    assert (verdict["resolved"], verdict["audited_verdict"]) == (True, "resolved")
