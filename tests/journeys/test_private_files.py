"""Files of a run are for its user only, unless the operator has opened the lake to others."""

import stat
from pathlib import Path

import pytest

from tests.journeys.command_line import GOLD, Terminal

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.journey("run", "status")
@pytest.mark.parametrize(("name", "before"), [("a b*c#d%20[e]{é}'\"", None), ("lake", 0o2770)])
def test_a_lake_is_private_whatever_its_name(
    terminal: Terminal, name: str, before: int | None
) -> None:
    """Other users cannot enter a new lake, or read the journal. A folder keeps its mode. Nothing
    is next to the lake."""
    lake = terminal.folder / name
    if before is not None:
        lake.mkdir()
        lake.chmod(before)
    file = terminal.write("e.yaml", GOLD)
    terminal.durabench("run", file, "--lake", name)
    assert mode(lake) == (before or 0o700)
    assert {mode(each) for each in lake.iterdir() if "journal.sqlite" in each.name} == {0o600}
    assert {each.name for each in terminal.folder.iterdir()} == {"e.yaml", name}
    assert "1 of 1" in terminal.durabench("status", "e", "--lake", name)


@pytest.mark.journey("run")
def test_a_question_mark_is_refused(terminal: Terminal) -> None:
    """It would end the path of the journal. Nothing is written."""
    file = terminal.write("e.yaml", GOLD)
    assert "question mark" in terminal.refused("run", file, "--lake", "a?b")
    assert [each.name for each in terminal.folder.iterdir()] == ["e.yaml"]
