"""The lake as DuckDB views."""

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from reports.columns import PARTITION, SHARED_TABLES, TABLES
from reports.errors import ReportError
from reports.lake import find_newest, list_experiments, open_lake
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
    monkeypatch.setattr("reports.lake.SEVERAL", 0)
    assert len(open_lake(root, "trial").sql("from attempts").fetchall()) == 1


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
    monkeypatch.setattr("reports.lake.SEVERAL", 2)
    monkeypatch.setattr("reports.lake._AT_ONCE", 3)
    in_parts = open_lake(lake.root, "trial")
    for name in ("attempts", "predictions", "evaluations"):
        assert in_parts.sql(f"from {name}").columns == whole.sql(f"from {name}").columns
        rows = [each.sql(f"from {name}").fetchall() for each in (in_parts, whole)]
        assert sorted(rows[0], key=str) == sorted(rows[1], key=str)
        assert len(rows[0]) >= 7
    threads = "select current_setting('threads')"
    assert in_parts.sql(threads).fetchall() == whole.sql(threads).fetchall()


def test_files_that_are_not_finished_are_not_read(lake: LakeBuilder) -> None:
    """Only files that end in `.parquet` are read, since temporary files may be incomplete."""
    lake.declare(["a"], ["i1"])
    folder = lake.write("attempts", "a", []).parent
    (folder / "unit.parquet.tmp").write_bytes(b"half")
    assert open_lake(lake.root, "trial").sql("from attempts").fetchall() == []


def test_a_missing_lake_says_what_to_do(tmp_path: Path) -> None:
    """A missing lake is reported in one line with its path."""
    with pytest.raises(ReportError, match=r"no lake at .*nowhere: run `durabench demo` first"):
        open_lake(tmp_path / "nowhere", "trial")


def test_the_newest_experiment_was_declared_last(tmp_path: Path) -> None:
    """The time of the declaration decides, not the name or the file. Jobs do not count."""
    for name, hour in (("b", 12), ("a", 14), ("c", 13), ("job-0a1b2c", 15)):
        declared_at = datetime(2026, 3, 1, hour, tzinfo=UTC)
        LakeBuilder(tmp_path, name).declare(["x", "y"], ["i1"], declared_at=declared_at)
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "0a1b2c.parquet").touch()
    assert find_newest(tmp_path) == "a"


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
