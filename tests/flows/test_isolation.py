"""Cells that have a process each, and processes that die."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.journal import holding
from flows.benchmark import benchmark
from flows.cells.loop import DEATHS
from flows.display.errors import IncompleteRun
from flows.storage.journals import open_journal
from flows.storage.lake import Lake
from tests.flows.conftest import SUBMIT, trial
from tests.servers import openai_server as api

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


async def test_an_error_without_a_text_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Time limits of HTTP clients raise such errors."""

    async def late(*_: object, **__: object) -> None:
        raise TimeoutError

    monkeypatch.setattr("flows.cells.loop.check_image", late)
    arms = [{"name": "gold", "agent": "gold"}]
    declared = trial(arms=arms, primary=None, select={"sample": 1})
    with pytest.raises(IncompleteRun, match="1 of 1 cells ended as infrastructure"):
        await benchmark(declared, str(tmp_path / "lake"))
    assert "gold · durabench__quillet-3: infrastructure: TimeoutError\n" in capsys.readouterr().err


def test_a_command_whose_cells_have_processes_does_not_load_litellm(tmp_path: Path) -> None:
    """It would take two seconds of processor time. The processes of the cells load it."""
    program = (
        "import atexit, sys\n"
        "from flows.cli.app import app\n"
        "atexit.register(lambda: print('litellm' in sys.modules))\n"
        "app(sys.argv[1:])"
    )
    with api.OpenAIServer(lambda body: SUBMIT) as models:
        model = {"provider": "litellm", "name": "openai/some", "api_base": models.url}
        arms = [{"name": "mini", "agent": "mini", "model": model}]
        declared = trial(arms=arms, primary=None, select={"sample": 1}, isolation="process")
        path = tmp_path / "trial.yaml"
        path.write_text(yaml.safe_dump(declared.model_dump(mode="json")))
        done = subprocess.run(
            [sys.executable, "-c", program, "run", str(path), "--lake", str(tmp_path / "lake")],
            env={**os.environ, "OPENAI_API_KEY": "none"},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert len(models.began) == 1
    assert done.stdout.endswith("False\n")
