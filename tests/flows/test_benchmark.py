"""An experiment from its declaration to its report, on a real Prefect server."""

import pytest

from flows.benchmark import benchmark
from flows.cells import loop
from flows.experiments.cells import Cell
from flows.experiments.stop import Stop
from flows.storage.lake import Lake
from tests.flows.conftest import Finished, rows, trial

pytestmark = [pytest.mark.usefixtures("prefect"), pytest.mark.slow]


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
async def test_grading_can_wait(lake_path: str) -> None:
    """With `grade=False` there are predictions and no verdicts. A later run adds only the
    verdicts."""
    declared = trial(select={"sample": 1}, arms=[{"name": "gold", "agent": "gold"}], primary=None)
    await benchmark(declared, lake_path, grade=False)
    assert (len(rows(lake_path, "predictions")), rows(lake_path, "evaluations")) == (1, [])
    await benchmark(declared, lake_path)
    assert len(rows(lake_path, "predictions")) == len(rows(lake_path, "evaluations")) == 1
