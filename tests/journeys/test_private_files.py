"""Files of a run are for its user only, unless the operator has opened the lake to others."""

import stat
from pathlib import Path

import pytest

from tests.journeys.command_line import GOLD, Terminal

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.journey("run")
@pytest.mark.parametrize("before", [None, 0o2770])
def test_a_lake_is_private(terminal: Terminal, before: int | None) -> None:
    """Other users cannot enter a new lake, or read the journal. A folder keeps its mode."""
    lake = terminal.folder / "lake"
    if before is not None:
        lake.mkdir()
        lake.chmod(before)
    file = terminal.write("e.yaml", GOLD)
    terminal.durabench("run", file)
    assert mode(lake) == (before or 0o700)
    assert {mode(each) for each in lake.glob("journal.sqlite*")} == {0o600}


@pytest.mark.journey("run", "status")
def test_a_lake_may_have_any_name(terminal: Terminal) -> None:
    """The journal and the rows are in it, and nothing is next to it."""
    name = "a b*c#d%20[e]{é}'\""
    file = terminal.write("e.yaml", GOLD)
    terminal.durabench("run", file, "--lake", name)
    assert (terminal.folder / name / "journal.sqlite").is_file()
    assert {each.name for each in terminal.folder.iterdir()} == {"e.yaml", name}
    assert "1 of 1" in terminal.durabench("status", "e", "--lake", name)


@pytest.mark.journey("run")
def test_a_question_mark_is_refused(terminal: Terminal) -> None:
    """It would end the path of the journal. Nothing is written."""
    file = terminal.write("e.yaml", GOLD)
    assert "question mark" in terminal.refused("run", file, "--lake", "a?b")
    assert [each.name for each in terminal.folder.iterdir()] == ["e.yaml"]
