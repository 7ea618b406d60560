"""The relations of an experiment as a DuckDB file."""

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


def export(name: str, file: Path, lake: Path) -> tuple[int, str]:
    """Run the command. Return its exit code and what it printed."""
    command = ["export", name, "--duckdb", str(file), "--lake", str(lake)]
    result = CliRunner().invoke(app, command)
    return result.exit_code, result.output


def test_every_relation_is_in_the_file(lake: Path, tmp_path: Path) -> None:
    """The file has every table of the lake, of staging and of the marts, with their rows, and
    replaces an earlier one."""
    file = tmp_path / "it's a file.duckdb"
    for _ in range(2):
        code, output = export("trial", file, lake)
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


def test_a_file_that_cannot_be_written_is_refused(lake: Path, tmp_path: Path) -> None:
    """A folder in place of a file or none to put it in, and an unknown experiment, are one line and
    leave no file."""
    wrong = [("trial", tmp_path / "no" / "f.duckdb"), ("trial", lake), ("tria", tmp_path / "f.db")]
    for name, file in wrong:
        code, output = export(name, file, lake)
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
        write_relations(lake, "trial", file)
    assert file.read_text() == "earlier"
    assert sorted(path.name for path in tmp_path.iterdir()) == [file.name, lake.name]
