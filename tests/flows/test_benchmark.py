"""An experiment from its declaration to its report, on a real Prefect server."""

from pathlib import Path
from typing import Any

import pytest

from agent.errors import WorkspaceError
from eval import instances
from flows.benchmark import benchmark
from flows.cells import loop
from flows.display.errors import IncompleteRun
from flows.experiments import workspaces
from flows.experiments.cells import Cell
from flows.experiments.stop import Stop
from flows.storage import report_files
from flows.storage.lake import Lake
from tests.flows.conftest import Finished, trial

pytestmark = [pytest.mark.usefixtures("prefect"), pytest.mark.slow]


def rows(lake_path: str, table: str) -> list[dict[str, Any]]:
    lake = Lake.existing(lake_path)
    return [row for unit in lake.units(table, "*") for row in lake.find(table, unit)]


async def test_every_cell_ends_with_a_verdict(finished: Finished, lake_path: str) -> None:
    """The able arm and gold resolve, the unable arm and null do not, and the report says so."""
    lake = await finished.copy(trial(), lake_path)
    built = report_files.read(lake, "trial")
    assert {arm.name: arm.resolved for arm in built.arms} == {
        "able": 2,
        "unable": 0,
        "gold": 2,
        "null": 0,
    }
    assert built.audits == ()
    assert built.comparisons[0].table.only_candidate == 2
    page = Path(lake_path) / "reports" / "trial" / "index.html"
    assert "simulated model" in page.read_text()
    assert "no isolation" in page.with_name("report.md").read_text()


async def test_every_number_can_be_traced_to_its_calls(finished: Finished, lake_path: str) -> None:
    """Costs and tokens of an attempt are the sums over its calls, and each call is a step."""
    await finished.copy(trial(), lake_path)
    calls = rows(lake_path, "llm_calls")
    steps = {(step["attempt_id"], step["seq"]): step for step in rows(lake_path, "steps")}
    for attempt in rows(lake_path, "attempts"):
        own = [call for call in calls if call["attempt_id"] == attempt["attempt_id"]]
        assert attempt["model_calls"] == len(own)
        assert attempt["cost_usd"] == pytest.approx(sum(call["cost_usd"] for call in own))
        assert attempt["input_tokens"] == sum(call["input_tokens"] for call in own)
        assert all(steps[call["attempt_id"], call["seq"]]["kind"] == "model" for call in own)
    assert calls


async def test_a_finished_cell_is_not_begun_again(
    finished: Finished,
    lake_path: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A run of a finished experiment begins no cell, and one with a missing verdict only that cell.

    A cell that is begun has several task runs on the server, even if its results are cached. All
    others together take one line.
    """
    lake, begun = await finished.copy(trial(), lake_path), []
    real = loop.solve_only

    async def counted(cell: Cell, lake: Lake, *, stop: Stop) -> str:
        begun.append(cell.label)
        return await real(cell, lake, stop=stop)

    monkeypatch.setattr(loop, "solve_only", counted)
    capsys.readouterr()  # the shared experiment may have run just now
    await benchmark(trial(), lake_path)
    assert begun == []
    progress = [line for line in capsys.readouterr().err.splitlines() if line.startswith("[")]
    assert progress == ["[8/8] done by an earlier run: 4 resolved, 4 unresolved"]
    [row, *_] = rows(lake_path, "evaluations")
    [unit] = lake.units("evaluations", f"{row['attempt_id']}-*")
    [(_, arm, _)] = lake.places("evaluations", unit)
    lake.remove("evaluations", "trial", arm, unit)
    await benchmark(trial(), lake_path)
    assert begun == [f"{arm} · {row['instance_id']}"]
    assert len(rows(lake_path, "evaluations")) == 8


@pytest.mark.full
async def test_broken_infrastructure_is_no_result_and_is_tried_again(
    lake_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cell that fails because of infrastructure leaves no prediction, and the next run completes
    it."""
    real = workspaces._open
    victim = instances.load("bundled")[0].instance_id
    gold = [{"name": "gold", "agent": "gold"}]
    declared = trial(select={"ids": [victim]}, arms=gold, primary=None)

    async def broken(*arguments: Any, **options: Any) -> None:
        raise WorkspaceError("the disk is on fire", retryable=False)

    monkeypatch.setattr(workspaces, "_open", broken)
    with pytest.raises(IncompleteRun, match="1 of 1 cell ended as infrastructure"):
        await benchmark(declared, lake_path)
    [attempt] = rows(lake_path, "attempts")
    assert attempt["outcome"] == "infrastructure"
    assert "the disk is on fire" in attempt["detail"]
    assert rows(lake_path, "predictions") == []

    monkeypatch.setattr(workspaces, "_open", real)
    await benchmark(declared, lake_path)
    built = report_files.read(Lake.existing(lake_path), "trial")
    assert built.arm("gold").resolved == 1


@pytest.mark.full
async def test_grading_can_wait(lake_path: str) -> None:
    """With `grade=False` there are predictions and no verdicts. A later run adds only the
    verdicts."""
    declared = trial(select={"sample": 1}, arms=[{"name": "gold", "agent": "gold"}], primary=None)
    await benchmark(declared, lake_path, grade=False)
    assert (len(rows(lake_path, "predictions")), rows(lake_path, "evaluations")) == (1, [])
    await benchmark(declared, lake_path)
    assert len(rows(lake_path, "predictions")) == len(rows(lake_path, "evaluations")) == 1
