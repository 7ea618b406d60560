"""Imports that correct earlier ones, are killed halfway, or run concurrently."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.formats import filing, imported_arms, swebench
from flows.formats.imported_arms import Summary
from flows.formats.tables import import_table
from flows.storage import report_files
from flows.storage.lake import Lake, Row
from reports.types import Report

HEADER = "arm,instance_id,resolved,cost_usd,api_calls\n"


def table(path: Path, *rows: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(HEADER + "".join(f"{row}\n" for row in rows))
    return path


def put(path: Path, lake: Path, name: str = "x") -> None:
    import_table(path, name, {}, str(lake))


def read(lake: Path) -> Report:
    return report_files.read(Lake.existing(str(lake)), "x")


def counts(report: Report) -> dict[str, tuple[int, int, int]]:
    """Return the numbers of resolved, started and planned instances by arm."""
    return {arm.name: (arm.resolved, arm.started, arm.planned) for arm in report.arms}


def put_submission(
    report: Path, predictions: Path | None, name: str, arm: str | None, lake: str
) -> Summary:
    [summary] = filing.file(swebench.read(report, predictions, arm), name, arm, lake)
    return summary


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


def test_a_corrected_table_takes_the_place_of_the_first(tmp_path: Path, lake: Path) -> None:
    """Instances, rows and arms that a corrected table no longer has disappear from all figures, and
    no audit fails."""
    path = tmp_path / "t.csv"
    put(table(path, "a,x-1,1,1,1", "a,typo,1,1,1", "b,x-1,1,,", "gone,x-1,1,,"), lake)
    put(table(path, "a,x-1,1,1,1", "a,x-2,0,1,1", "b,x-1,0,,"), lake)
    report = read(lake)
    assert counts(report) == {"a": (1, 2, 2), "b": (0, 1, 2)}
    assert report.audits == ()
    assert {cell.instance_id for cell in report.cells} == {"x-1", "x-2"}


def test_arms_of_other_files_and_commands_stay(
    tmp_path: Path, lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Arms from other files and commands stay. A table that takes one of them over replaces that
    arm alone, and an arm that disappears is reported."""
    put(table(tmp_path / "one" / "t.csv", "a,x-1,1,,", "b,x-1,1,,"), lake)
    put(table(tmp_path / "two" / "t.csv", "c,x-3,1,,"), lake)
    run = tmp_path / "run.json"
    run.write_text(json.dumps({"resolved_ids": ["x-4"], "submitted_ids": ["x-4"]}))
    put_submission(run, None, "x", "theirs", str(lake))
    put(table(tmp_path / "one" / "t.csv", "a,x-1,1,,"), lake)
    assert "no longer an arm: b" in capsys.readouterr().err
    report = read(lake)
    assert counts(report) == {"a": (1, 1, 3), "c": (1, 1, 3), "theirs": (1, 1, 3)}
    put(table(tmp_path / "three.csv", "a,x-5,0,,", "d,x-5,0,,"), lake)
    put(table(tmp_path / "one" / "t.csv", "b,x-1,1,,"), lake)
    report = read(lake)
    assert counts(report).keys() == {"a", "b", "c", "d", "theirs"}
    assert {cell.instance_id for cell in report.cells} == {"x-1", "x-3", "x-4", "x-5"}
    assert report.audits == ()


class Killed(BaseException):
    """A stand-in for SIGKILL."""


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Yield a counter: the number of changes to the lake after which the process is killed."""
    left = [10**9]
    for name in ("write", "write_columns", "remove"):
        own = getattr(Lake, name)

        def counted(self: Lake, *args: object, own: object = own) -> object:
            left[0] -= 1
            if left[0] < 0:
                raise Killed
            return own(self, *args)  # type: ignore[operator]

        monkeypatch.setattr(Lake, name, counted)
    yield left
    left[0] = 10**9


@pytest.mark.full
@pytest.mark.slow
def test_an_import_that_is_killed_anywhere_can_be_repeated(
    tmp_path: Path, lake: Path, writes: list[int]
) -> None:
    """An import that is killed anywhere loses no arm of another file and counts no result that its
    file lacks. Repeating it completes the import."""
    path = tmp_path / "t.csv"
    after = 0
    while True:
        place = lake / str(after)
        put(table(tmp_path / "other.csv", "c,x-1,1,,"), place)
        put(table(path, "a,x-1,1,,", "a,typo,1,,", "gone,x-1,1,,"), place)
        table(path, "a,x-1,0,,", "b,x-2,1,,")
        writes[0] = after
        try:
            put(path, place)
        except Killed:
            writes[0] = 10**9
            half = read(place)
            assert counts(half)["c"][:2] == (1, 1)
            assert {failed.name for failed in half.audits} <= {"evaluation_without_attempt"}
            put(path, place)
        else:
            break
        report = read(place)
        assert counts(report) == {"c": (1, 1, 2), "a": (0, 1, 2), "b": (1, 1, 2)}
        assert report.audits == ()
        after += 1
    assert after > 8


def test_an_incomplete_declaration_is_ignored(tmp_path: Path, lake: Path) -> None:
    """An incomplete declaration, which lacks arms, is ignored; the one before it counts."""
    put(table(tmp_path / "t.csv", "a,x-1,1,,", "b,x-1,1,,"), lake)
    store = Lake.existing(lake)
    row = store.read("experiments", "x", "a", store.latest_unit("experiments", "x"))[0]
    content = json.loads(row["declaration"]) | {"instances": ["x-9"]}
    later: Row = {
        **row,
        "declaration": json.dumps(content),
        "declaration_digest": "other",
        "declared_at": row["declared_at"].replace(year=2100),
        "instance_ids": ["x-9"],
    }
    store.write("experiments", "x", "a", "21000101-other", [later])
    assert counts(read(lake)).keys() == {"a", "b"}
    assert [arm.name for arm in imported_arms.load_arms(store, "x")] == ["a", "b"]
