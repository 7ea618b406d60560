"""Tables of published results; every number of the report is recomputed."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from flows.cli.app import app
from flows.display.errors import UsageError
from flows.formats.tables import import_table
from flows.storage import report_files
from flows.storage.lake import Lake
from reports.types import Report


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["import", "table", *arguments])


def read(lake_path: Path, name: str) -> Report:
    return report_files.read(Lake.existing(str(lake_path)), name)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Write two arms over three instances; the second arm has no row for the last one. Return the
    path."""
    path = tmp_path / "results.csv"
    path.write_text(
        "model,instance_id,resolved,cost_usd,api_calls\n"
        "Big Model,a__b-1,1,0.5,3\nBig Model,a__b-2,0,,4\nBig Model,a__c-1,1,0.25,5\n"
        "small,a__b-1,0,0.1,6\nsmall,a__b-2,1,0.1,7\n"
    )
    return path


def test_an_instance_without_a_row_was_never_run(table: Path, tmp_path: Path) -> None:
    """An instance without a row stays in the arm's denominator, and a missing cost is unknown, not
    zero."""
    result = invoke(str(table), "--name", "x", "--lake", str(tmp_path))
    assert result.exit_code == 0, result.output
    assert "1 of 3" in result.stdout
    report = read(tmp_path, "x")
    big, small = report.arms
    assert (big.name, big.model, big.resolved, big.planned) == ("big-model", "Big Model", 2, 3)
    assert (small.resolved, small.planned, small.states["missing"]) == (1, 3, 1)
    assert (big.cost.usd, big.cost.is_lower_bound) == (0.75, True)
    assert report.comparisons[0].table.only_baseline == 2
    assert report.source.dataset.startswith("results.csv (sha256 ")


def test_the_same_table_again_changes_nothing(table: Path, tmp_path: Path) -> None:
    """Importing the same table again changes no file, and a corrected table replaces it."""
    import_table(table, "x", {}, str(tmp_path))
    before = sorted(tmp_path.rglob("*.parquet"))
    import_table(table, "x", {}, str(tmp_path))
    assert sorted(tmp_path.rglob("*.parquet")) == before
    table.write_text(table.read_text().replace("small,a__b-1,0", "small,a__b-1,1"))
    import_table(table, "x", {}, str(tmp_path))
    report = read(tmp_path, "x")
    assert (report.audits, report.arm("small").resolved) == ((), 2)


def test_the_name_of_an_experiment_takes_no_import(table: Path, tmp_path: Path) -> None:
    """An import cannot take the name of an experiment that was run in the lake, nor an invalid
    name."""
    lake = Lake.open(tmp_path)
    import_table(table, "x", {}, str(tmp_path))
    unit = lake.latest_unit("experiments", "x")
    [row] = lake.read("experiments", "x", "small", unit)
    own = json.dumps({"name": "ours", "select": {}, "arms": [{"name": "small"}]})
    lake.write("experiments", "ours", "small", "20200101-0", [{**row, "declaration": own}])
    with pytest.raises(UsageError, match="'ours' is an experiment that was run in this lake"):
        import_table(table, "ours", {}, str(tmp_path))
    with pytest.raises(UsageError, match="cannot name results"):
        import_table(table, "../x", {}, str(tmp_path))


def test_the_traps_of_a_published_table_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Leaderboards of SWE-bench are arms. A cost of 0 beside calls is unknown, a null verdict is
    not graded, and costs that do not add up to the published total are named."""
    cells = [(True, 0.5, 9), (False, 0.0, 9), (None, 0.5, 9), (False, 0.0, 0)]
    details = {
        f"a__b-{number}": {"resolved": resolved, "cost": cost, "api_calls": calls}
        for number, (resolved, cost, calls) in enumerate(cells)
    }
    entries = [
        {
            "name": "one",
            "resolved": 25.0,
            "cost": 3.0,
            "tags": ["Model: m-1", "Org: o"],
            "per_instance_details": details,
        },
        {"name": "two", "resolved": 25.0, "cost": 1.0, "per_instance_details": details},
        {"name": "without details", "resolved": 50.0, "per_instance_details": None},
    ]
    boards = [{"name": "Verified", "results": entries}, {"name": "Lite", "results": entries[:1]}]
    path = tmp_path / "leaderboards.json"
    path.write_text(json.dumps({"leaderboards": boards}))
    arms = import_table(path, "x", {}, str(tmp_path / "lake"))
    assert [(arm.label, arm.resolved, arm.planned, arm.cost_usd, arm.unpriced) for arm in arms] == [
        (label, 1, 4, 1.0, 1) for label in ("one (Verified)", "two", "one (Lite)")
    ]
    models = {row["model"] for row in Lake.open(tmp_path / "lake").rows("attempts", "x")}
    assert models == {"m-1", "unknown"}
    shown = " ".join(capsys.readouterr().err.split())
    assert "3 rows have no verdict, and count as not graded" in shown
    assert "3 rows have a cost of 0 and not 0 calls: the cost counts as unknown" in shown
    assert (
        "2 arms do not add up to total_cost, such as $1.00 and $3.00 of 'one (Verified)'" in shown
    )
