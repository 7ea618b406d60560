"""Cells that have a process each, and processes that die."""

from pathlib import Path
from typing import Any

import pytest

from agent.journal import holding
from flows.benchmark import benchmark
from flows.cells import DEATHS
from flows.errors import IncompleteRun
from flows.storage.journals import open_journal
from flows.storage.lake import Lake
from tests.flows.conftest import trial

pytestmark = [pytest.mark.usefixtures("prefect"), pytest.mark.slow, pytest.mark.sampled(4)]

DIE = r"""
echo died >> {log}
p=$$
until tr '\0' ' ' < /proc/$p/cmdline | grep -q forkserver; do p=$(cut -d' ' -f4 /proc/$p/stat); done
kill -9 $p
"""
"""Ends the process of the cell that the command belongs to."""


def workers(lake: str) -> set[str | None]:
    """The processes that have solved the attempts of a lake."""
    journal = open_journal(Lake.existing(lake))
    return {each.worker for each in journal.progress("trial")}


async def test_isolation_changes_no_result(tmp_path: Path) -> None:
    """Attempts, costs and verdicts are equal, and each cell has a process of its own."""
    able = {"name": "able", "agent": "mini", "model": {"provider": "simulated", "skill": 1}}
    found = {}
    for isolation in ("none", "process"):
        lake = str(tmp_path / isolation)
        arms = [able, {"name": "gold", "agent": "gold"}]
        declared = trial(arms=arms, primary=None, select={"sample": 1}, isolation=isolation)
        await benchmark(declared, lake)
        attempts = Lake.existing(lake).rows("attempts", "trial")
        verdicts = Lake.existing(lake).rows("evaluations", "trial")
        found[isolation] = (
            {(row["attempt_id"], row["outcome"], row["cost_usd"]) for row in attempts},
            {(row["attempt_id"], row["outcome"]) for row in verdicts},
        )
    assert found["process"] == found["none"]
    assert {outcome for _, outcome in found["none"][1]} == {"resolved"}
    assert workers(str(tmp_path / "none")) == {holding.worker()}
    assert len(workers(str(tmp_path / "process")) - {holding.worker()}) == 2


async def test_a_process_that_dies_takes_no_other_cell_with_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its cell begins three times, and then ends as infrastructure."""
    log = tmp_path / "log"
    replies = [{"command": DIE.format(log=log)}]
    model: dict[str, Any] = {"provider": "scripted", "replies": replies}
    arms = [{"name": "deadly", "agent": "mini", "model": model}, {"name": "gold", "agent": "gold"}]
    declared = trial(arms=arms, primary=None, select={"sample": 1}, isolation="process")
    with pytest.raises(IncompleteRun, match="1 of 2 cells ended as infrastructure"):
        await benchmark(declared, str(tmp_path / "lake"))
    assert log.read_text() == "died\n" * DEATHS
    said = capsys.readouterr().err
    assert said.count("its process died with exit code -9, and is replaced by another") == 2
    assert "deadly · durabench__quillet-3: infrastructure: its process died" in said
    [row] = Lake.existing(str(tmp_path / "lake")).rows("evaluations", "trial")
    assert (row["outcome"], row["resolved"]) == ("resolved", True)
