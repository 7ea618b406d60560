"""The lake's files: written atomically, with the declared columns."""

from pathlib import Path
from typing import Any

import pytest

from agent.errors import InfrastructureError
from flows.display.errors import UsageError
from flows.storage.lake import Lake
from tests.flows.conftest import PREDICTION


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.open(tmp_path / "lake")


@pytest.mark.parametrize(
    "row",
    [
        {**PREDICTION, "colour": "red"},
        {key: value for key, value in PREDICTION.items() if key != "repeat"},
        {**PREDICTION, "repeat": None},
        {**PREDICTION, "repeat": "many"},
    ],
)
def test_a_row_that_does_not_fit_leaves_nothing_behind(lake: Lake, row: dict[str, Any]) -> None:
    """Unknown, missing, null and mistyped columns are refused before a file is created."""
    with pytest.raises(Exception, match="colour|repeat|many"):
        lake.write("predictions", "trial", "a", "1", [row])
    assert [path for path in lake.root.rglob("*") if path.is_file()] == []


def test_a_failed_write_leaves_no_part_of_a_file(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write that fails at the final rename leaves no temporary file."""

    def refuse(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(InfrastructureError, match=r"1\.parquet .*No space .* run again"):
        lake.write("predictions", "trial", "a", "1", [PREDICTION])
    assert [path for path in lake.root.rglob("*") if path.is_file()] == []


def test_a_lake_that_is_only_opened_leaves_nothing(tmp_path: Path) -> None:
    """Opening a lake creates no folder; the first row does."""
    lake = Lake.open(tmp_path / "above" / "lake")
    assert list(tmp_path.iterdir()) == []
    lake.write("predictions", "trial", "a", "1", [PREDICTION])
    assert lake.units("predictions", "*") == ["1"]


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    """A lake that is or is below a file, or behind a dangling link, is refused in one line."""
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "absent")
    for blocked in ("file", "file/lake", "link", "link/lake"):
        with pytest.raises(
            UsageError, match=f"cannot write to the lake .*{blocked}.*DURABENCH_LAKE"
        ):
            Lake.open(tmp_path / blocked)
