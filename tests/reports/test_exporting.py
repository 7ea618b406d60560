"""The relations of one experiment, or of all, as a DuckDB file."""

import re
from datetime import date
from pathlib import Path

import duckdb
import pytest
from typer.testing import CliRunner

from flows.cli.app import app
from reports.columns import SHARED_TABLES, TABLES
from reports.relations import MARTS, STAGING, write_relations
from tests.reports.lake_fixture import LakeBuilder


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Write an arm with two cells. Return the folder of the lake."""
    builder = LakeBuilder(tmp_path / "it's a lake")
    builder.declare(["a"], ["i", "j"])
    for instance in "ij":
        builder.cell("a", instance)
    return builder.root


def export(file: Path, lake: Path, *name: str) -> tuple[int, str]:
    """Run the command. Return its exit code and what it printed."""
    result = CliRunner().invoke(app, ["export", *name, "--duckdb", str(file), "--lake", str(lake)])
    return result.exit_code, result.output


def test_every_relation_is_in_the_file(lake: Path, tmp_path: Path) -> None:
    """The file has every table of the lake, of staging and of the marts, with their rows, and
    replaces an earlier one."""
    file = tmp_path / "it's a file.duckdb"
    for _ in range(2):
        code, output = export(file, lake, "trial")
        assert code == 0, output
        assert "marts.cells: 2 rows" in output
    with duckdb.connect(str(file), read_only=True) as connection:
        found = connection.execute("select schema_name || '.' || table_name from duckdb_tables()")
        names = {name for (name,) in found.fetchall()}
        assert names == {
            *(f"lake.{name}" for name in (*TABLES, *SHARED_TABLES)),
            *(f"staging.{name}" for name in STAGING),
            *(f"marts.{name}" for name in MARTS),
        }
        states = connection.execute("select instance_id, state from marts.cells order by all")
        assert states.fetchall() == [("i", "resolved"), ("j", "resolved")]
        [usd] = connection.execute("select sum(cost_usd) from lake.llm_calls").fetchone() or [None]
        assert usd == 1.0
    assert sorted(path.name for path in tmp_path.iterdir()) == [file.name, lake.name]


README = Path(__file__).parents[2] / "reports" / "README.md"


def test_all_nights_are_in_one_file_and_a_grading_counts_once(tmp_path: Path) -> None:
    """The query of the page counts each cell of the last nights once, with its last grading."""
    nights = ("smoke-20261126t040000", "smoke-20261127t040000", "smoke-20261128t040000", "other")
    for name in nights:
        lake = LakeBuilder(tmp_path / "lake", name)
        lake.declare(["a"], ["x__y-1", "x__y-2", "z__z-1"])
        graded = lake.attempt("a", "x__y-1", repo="x/y", cost_usd=1.0)
        lake.predict("a", "x__y-1", graded)
        lake.evaluate("a", "x__y-1", graded, "unresolved")
        lake.evaluate("a", "x__y-1", graded, "resolved", later_s=60, unit="again")
        lake.cell("a", "x__y-2", "unresolved", repo="x/y", cost_usd=2.0)
    file = tmp_path / "all.duckdb"
    code, output = export(file, tmp_path / "lake")
    assert code == 0, output
    assert "lake.evaluations: 12 rows" in output
    queries = re.findall(r"```sql\n(.+?)```", README.read_text(), re.DOTALL)
    [query] = [query for query in queries if "marts.cells" in query]
    with duckdb.connect(str(file), read_only=True) as connection:
        rows = connection.execute(query.replace("limit 10", "limit 2")).fetchall()
        assert rows == [("a", "x/y", 4, 2, 6.0, 0, 3.0), ("a", "z/z", 2, 0, None, 0, None)]
        series = connection.execute("select distinct series, night from lake.attempts order by 2")
        assert series.fetchall() == [
            *(("smoke", date(2026, 11, day)) for day in (26, 27, 28)),
            ("other", None),
        ]


def test_an_export_of_all_needs_a_file_and_an_experiment(tmp_path: Path) -> None:
    """Without a name, only a DuckDB file is written, and a lake without experiments says so."""
    result = CliRunner().invoke(app, ["export", "--lake", str(tmp_path)])
    assert (result.exit_code, result.output.count("\n")) == (2, 1)
    assert "name an experiment" in result.output
    code, output = export(tmp_path / "all.duckdb", tmp_path)
    assert code == 2
    assert "durabench demo" in output


def test_a_file_that_cannot_be_written_is_refused(lake: Path, tmp_path: Path) -> None:
    """A folder in place of a file or none to put it in, and an unknown experiment, are one line and
    leave no file."""
    wrong = [("trial", tmp_path / "no" / "f.duckdb"), ("trial", lake), ("tria", tmp_path / "f.db")]
    for name, file in wrong:
        code, output = export(file, lake, name)
        assert (code, output.count("\n")) == (2, 1), output
        assert not file.is_file()
    assert list(tmp_path.iterdir()) == [lake]


def test_an_earlier_file_stays_if_the_export_fails(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failing export leaves the earlier file as it was, and nothing else."""
    file = tmp_path / "f.duckdb"
    file.write_text("earlier")
    monkeypatch.setattr("reports.relations.MARTS", ("cells", "nothing"))
    with pytest.raises(duckdb.Error):
        write_relations(lake, ["trial"], file)
    assert file.read_text() == "earlier"
    assert sorted(path.name for path in tmp_path.iterdir()) == [file.name, lake.name]
