"""The lake as DuckDB views."""

import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from reports.columns import PARTITION, SHARED_TABLES, TABLES
from reports.errors import ReportError
from reports.lake import list_experiments, open_lake
from tests.reports.lake_fixture import NOON, LakeBuilder


def test_every_table_is_a_view_with_its_declared_columns(lake: LakeBuilder) -> None:
    """Tables without any file are empty views with the columns of the declaration."""
    lake.declare(["a"], ["i1"])
    connection = open_lake(lake.root, "trial")
    for name, table in TABLES.items():
        view = connection.sql(f"from {name}")
        assert view.columns == [*PARTITION, *table.schema.names]
        assert len(view.fetchall()) == (1 if name == "experiments" else 0)


def test_views_hold_one_experiment_only(lake: LakeBuilder) -> None:
    """Views exclude rows of other experiments in the same lake."""
    lake.declare(["a"], ["i1"])
    other = LakeBuilder(lake.root, "other")
    other.declare(["a", "b"], ["i1"])
    other.cell("b", "i1")
    connection = open_lake(lake.root, "trial")
    assert connection.sql("select experiment, arm from experiments").fetchall() == [("trial", "a")]
    assert connection.sql("from attempts").fetchall() == []
    assert list_experiments(lake.root) == ["other", "trial"]


def test_what_experiments_share_is_a_view_too(lake: LakeBuilder) -> None:
    """Tables that all experiments share are views, too, without the columns of the path."""
    lake.declare(["a"], ["i1"])
    connection = open_lake(lake.root, "trial")
    for name, table in SHARED_TABLES.items():
        assert connection.sql(f"from {name}").columns == table.schema.names
        assert connection.sql(f"from {name}").fetchall() == []
    (lake.root / "images").mkdir()
    row = {"image": "toy:1", "how": "built", "brought_at": NOON, "last_needed_at": NOON}
    rows = pa.Table.from_pylist([row], schema=SHARED_TABLES["images"].schema)
    pq.write_table(rows, lake.root / "images" / "toy.parquet")
    found = open_lake(lake.root, "trial").sql("select image, image_digest from images")
    assert found.fetchall() == [("toy:1", None)]


def test_names_that_look_like_numbers_stay_text(tmp_path: Path) -> None:
    """Arm `007` and experiment `2026` keep their spelling."""
    lake = LakeBuilder(tmp_path, "2026")
    lake.declare(["007"], ["i1"])
    rows = open_lake(tmp_path, "2026").sql("select experiment, arm from experiments").fetchall()
    assert rows == [("2026", "007")]


def test_a_lake_path_may_hold_any_character(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Quotes, glob characters and `=` in the folder's path have no special meaning."""
    root = tmp_path / "it's [a]*? run=3"
    lake = LakeBuilder(root)
    lake.declare(["a"], ["i1"])
    lake.cell("a", "i1")
    assert len(open_lake(root, "trial").sql("from attempts").fetchall()) == 1
    monkeypatch.setattr("reports.small_files.SEVERAL", 0)
    for _ in range(2):  # from the file, and from its copy
        assert len(open_lake(root, "trial").sql("from attempts").fetchall()) == 1
    [copied] = pq.read_table(root / ".copies/attempts/experiment=trial.parquet")["name"]
    assert root.joinpath("attempts/experiment=trial", copied.as_py()).is_file()


def test_a_column_that_older_files_lack_is_null(lake: LakeBuilder) -> None:
    """Files that were written before a column existed are readable."""
    lake.declare(["a"], ["i1"])
    path = lake.write("predictions", "a", [])
    old = pa.table({"attempt_id": ["x"], "instance_id": ["i1"]})
    pq.write_table(old, path)
    rows = open_lake(lake.root, "trial").sql("select attempt_id, model_patch from predictions")
    assert rows.fetchall() == [("x", None)]


def test_many_files_are_read_in_parts(lake: LakeBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows are those of a single scan, whatever columns the files of a part have."""
    lake.declare(["a", "007"], ["i1"])
    for number in range(7):
        lake.cell("a" if number % 2 else "007", f"i{number}")
    path = lake.write("predictions", "a", [])
    old = pa.table({"attempt_id": ["x"], "instance_id": ["i1"], "unknown": [1]})
    for stem in ("0", "~"):  # before and after the current files of the arm
        pq.write_table(old, path.with_stem(stem))
    attempt = pq.read_table(next(lake.root.glob("attempts/*/*/*.parquet")))
    place = attempt.column_names.index("duration_s")
    other_type = attempt.set_column(place, "duration_s", pa.array([7], pa.int64()))
    pq.write_table(other_type, lake.write("attempts", "a", []).with_stem("0"))
    whole = open_lake(lake.root, "trial")
    monkeypatch.setattr("reports.small_files.SEVERAL", 2)
    monkeypatch.setattr("reports.small_files._AT_ONCE", 3)
    in_parts = open_lake(lake.root, "trial")
    for name in ("attempts", "predictions", "evaluations"):
        assert in_parts.sql(f"from {name}").columns == whole.sql(f"from {name}").columns
        rows = [each.sql(f"from {name}").fetchall() for each in (in_parts, whole)]
        assert sorted(rows[0], key=str) == sorted(rows[1], key=str)
        assert len(rows[0]) >= 7
    threads = "select current_setting('threads')"
    assert in_parts.sql(threads).fetchall() == whole.sql(threads).fetchall()


class TestCopies:
    """The rows of many small files are kept in one file, and taken from there."""

    @pytest.fixture(autouse=True)
    def _several(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("reports.small_files.SEVERAL", 2)

    @pytest.fixture
    def copy(self, lake: LakeBuilder) -> Path:
        """The copy of the attempts after a first reading of five."""
        lake.declare(["a", "007"], [f"i{number}" for number in range(5)])
        for number in range(5):
            lake.cell("007" if number % 2 else "a", f"i{number}")
        open_lake(lake.root, "trial").close()
        return lake.root / ".copies/attempts/experiment=trial.parquet"

    @staticmethod
    def rows(lake: LakeBuilder) -> list[Any]:
        """All attempts, without their order."""
        with open_lake(lake.root, "trial") as connection:
            return sorted(connection.sql("from attempts").fetchall(), key=str)

    def test_unchanged_files_are_not_opened(self, lake: LakeBuilder, copy: Path) -> None:
        """A second reading gives the same rows without the content of any file."""
        before = self.rows(lake)
        assert len(before) == 5
        for path in lake.root.glob("attempts/*/*/*.parquet"):
            stat = path.stat()
            path.write_bytes(b"?" * stat.st_size)
            os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        assert self.rows(lake) == before

    def test_changed_files_are_read_again(self, lake: LakeBuilder, copy: Path) -> None:
        """Files that were replaced, added or removed since are noticed."""
        replaced, removed, *_ = sorted(lake.root.glob("attempts/*/*/*.parquet"))
        table = pq.read_table(replaced)
        place = table.column_names.index("detail")
        pq.write_table(table.set_column(place, "detail", pa.array(["new"])), replaced)
        removed.unlink()
        lake.cell("a", "i9")
        rows = self.rows(lake)
        assert len(rows) == 5
        assert sum("new" in row for row in rows) == 1
        assert sum("i9" in row for row in rows) == 1

    def test_many_new_files_renew_the_copy(self, lake: LakeBuilder, copy: Path) -> None:
        """A copy that lacks few files is left as it is."""
        lake.cell("a", "i5")
        lake.cell("a", "i6")
        self.rows(lake)
        assert pq.read_metadata(copy).num_rows == 5
        lake.cell("a", "i7")
        self.rows(lake)
        assert pq.read_metadata(copy).num_rows == 8
        assert [path.name for path in copy.parent.iterdir()] == [copy.name]

    @pytest.mark.parametrize("damage", ["cut off", "no Parquet", "of other columns", "a folder"])
    def test_a_copy_that_cannot_be_used(self, lake: LakeBuilder, copy: Path, damage: str) -> None:
        """It changes no row. A file is replaced."""
        before, content, whole = self.rows(lake), copy.read_bytes(), pq.read_table(copy)
        copy.unlink()
        match damage:
            case "cut off":
                copy.write_bytes(content[: len(content) // 2])
            case "no Parquet":
                copy.write_bytes(b"nothing")
            case "of other columns":
                pq.write_table(whole.drop_columns(["outcome"]), copy)
            case "a folder":
                copy.mkdir()
        assert self.rows(lake) == before
        assert copy.is_dir() or pq.read_table(copy).num_rows == 5

    def test_a_read_only_lake(self, lake: LakeBuilder, copy: Path) -> None:
        """A lake whose copies cannot be written is read as before."""
        before = self.rows(lake)
        shutil.rmtree(copy.parents[1])
        copy.parents[1].write_text("a file where the folder would be")
        assert self.rows(lake) == before


def test_files_that_are_not_finished_are_not_read(lake: LakeBuilder) -> None:
    """Only files that end in `.parquet` are read, since temporary files may be incomplete."""
    lake.declare(["a"], ["i1"])
    folder = lake.write("attempts", "a", []).parent
    (folder / "unit.parquet.tmp").write_bytes(b"half")
    assert open_lake(lake.root, "trial").sql("from attempts").fetchall() == []


def test_a_missing_lake_says_what_to_do(tmp_path: Path) -> None:
    """A missing lake is reported in one line with its path."""
    with pytest.raises(ReportError, match=r"no lake at .*nowhere: run an experiment first"):
        open_lake(tmp_path / "nowhere", "trial")


def test_an_empty_lake_says_so(tmp_path: Path) -> None:
    """The error for a lake without any experiment differs from that for an unknown experiment."""
    with pytest.raises(ReportError, match="holds no experiment yet"):
        open_lake(tmp_path, "trial")


def test_an_unknown_experiment_names_near_matches(lake: LakeBuilder) -> None:
    """A misspelled name is answered with a similar one, any other name with all known names."""
    lake.declare(["a"], ["i1"])
    with pytest.raises(ReportError, match="did you mean trial"):
        open_lake(lake.root, "trail")
    with pytest.raises(ReportError, match="known: trial"):
        open_lake(lake.root, "../../zzz")
