"""The loop that runs cells in this process."""

from pathlib import Path
from typing import Any

import pytest

from agent.errors import JournalError
from agent.journal import Queue, Taken
from flows.benchmark import benchmark
from flows.display.errors import IncompleteRun
from flows.experiments.declaration import Experiment
from flows.storage.lake import Lake
from tests.flows.conftest import trial

pytestmark = [pytest.mark.usefixtures("prefect"), pytest.mark.slow]


def gold(**changes: object) -> Experiment:
    arms = [{"name": "gold", "agent": "gold"}]
    return trial(**{"arms": arms, "primary": None, "select": {"sample": 1}, **changes})


async def test_an_error_without_a_text_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Time limits of HTTP clients raise such errors."""

    async def late(*_: object, **__: object) -> None:
        raise TimeoutError

    monkeypatch.setattr("flows.cells.loop.solve_only", late)
    with pytest.raises(IncompleteRun, match="1 of 1 cell ended as infrastructure"):
        await benchmark(gold(), str(tmp_path / "lake"))
    assert "gold · durabench__quillet-3: infrastructure: TimeoutError\n" in capsys.readouterr().err


async def test_cells_that_a_lost_journal_gives_no_more_end_as_infrastructure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was taken before is finished, and the next run does the rest."""
    take, lake = Queue.take, str(tmp_path / "lake")
    declared = gold(select={"sample": 2}, concurrency=1)

    taken = []

    def take_one(self: Queue, *given: Any, **options: Any) -> Taken | None:
        if taken:
            raise JournalError("the journal is gone", retryable=True)
        taken.append(take(self, *given, **options))
        return taken[0]

    with monkeypatch.context() as patched:
        patched.setattr(Queue, "take", take_one)
        with pytest.raises(IncompleteRun, match="1 of 2 cells ended as infrastructure"):
            await benchmark(declared, lake)
    assert "infrastructure: the journal is gone" in capsys.readouterr().err
    assert len(Lake.existing(lake).rows("evaluations", "trial")) == 1
    await benchmark(declared, lake)
    assert len(Lake.existing(lake).rows("evaluations", "trial")) == 2


async def test_a_journal_that_takes_no_ends_stops_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a broken disk, which can still be read. What was done is not done again."""

    def fail(*_: object, **__: object) -> None:
        raise JournalError("the journal fails: disk I/O error", retryable=False)

    lake = str(tmp_path / "lake")
    declared = gold(select={"sample": 4}, concurrency=1)
    with monkeypatch.context() as patched:
        patched.setattr(Queue, "end", fail)
        with pytest.raises(IncompleteRun, match="infrastructure"):
            await benchmark(declared, lake)
    assert "disk I/O error" in capsys.readouterr().err
    assert len(Lake.existing(lake).rows("evaluations", "trial")) < 4
    await benchmark(declared, lake)
    assert len(Lake.existing(lake).rows("evaluations", "trial")) == 4
