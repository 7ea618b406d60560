"""Cells that wait for a person: what they leave, and how they resume."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.errors import MessageRefused
from agent.journal import Attempt, InboxMessage, Journal
from flows.benchmark import benchmark
from flows.display.errors import IncompleteRun
from flows.experiments.declaration import Experiment
from flows.formats import exports
from flows.jobs.mailbox import Mailbox
from flows.storage.journals import open_journal
from flows.storage.lake import Lake
from tests.flows.conftest import trial
from tests.flows.test_budgets import rows

WRITE = {"calls": [{"tool": "write", "arguments": {"path": "made.txt", "content": "made"}}]}
DONE = {"calls": [{"tool": "answer", "arguments": {"summary": "made", "status": "done"}}]}


def asking(replies: list[Any], **options: Any) -> Experiment:
    """Return an experiment with one cell of an arm that asks a person, and one that does not."""
    model = {"provider": "scripted", "replies": replies}
    arms = [
        {"name": "asks", "agent": "loop", "model": model, "options": options},
        {"name": "gold", "agent": "gold"},
    ]
    return trial(select={"sample": 1}, arms=arms, primary=None)


def waiting(lake_path: str) -> tuple[Journal, Attempt]:
    """Return the journal and the attempt of the arm that asks."""
    journal = open_journal(Lake.existing(lake_path))
    [row] = [row for row in rows(lake_path, "attempts") if row["agent"] == "loop"]
    attempt = journal.attempt(row["attempt_id"])
    assert attempt is not None
    return journal, attempt


def send(lake_path: str, kind: Any, text: str = "") -> InboxMessage:
    journal, attempt = waiting(lake_path)
    message = InboxMessage(f"{kind} {text}", kind, text, "ann")
    return Mailbox(journal, attempt).pass_on(message)


def outcomes(lake_path: str) -> dict[str, str]:
    return {row["agent"]: row["outcome"] for row in rows(lake_path, "attempts")}


@pytest.mark.slow
@pytest.mark.usefixtures("prefect")
@pytest.mark.full
async def test_a_cell_that_waits_is_resumed_by_its_answer(
    lake_path: str, tmp_path: Path, set_timings: Callable[..., None]
) -> None:
    """It holds no lease, leaves no prediction and is no infrastructure failure. Without an answer
    it is not even replayed, and with one it ends like any other cell."""
    set_timings(idle_s=0)
    declared = asking([WRITE, DONE], capabilities=["files"], approval="patch")
    for _ in range(2):
        with pytest.raises(IncompleteRun, match="1 of 2 cells waiting for a person"):
            await benchmark(declared, lake_path)
        assert outcomes(lake_path) == {"loop": "waiting", "gold": "submitted"}
        assert [row["model_name_or_path"] for row in rows(lake_path, "predictions")] == ["gold"]
        journal, attempt = waiting(lake_path)
        assert journal.holder(attempt.attempt_id) is None
    assert len(journal.tenures(attempt.attempt_id)) == 2
    send(lake_path, "approve", "fine by me")
    await benchmark(declared, lake_path)
    assert outcomes(lake_path) == {"loop": "submitted", "gold": "submitted"}
    patches = {r["model_name_or_path"]: r["model_patch"] for r in rows(lake_path, "predictions")}
    assert "made.txt" in patches["asks"]
    with pytest.raises(MessageRefused, match="has ended: fork it"):
        send(lake_path, "say", "wait")
    exported = exports.trajectories("trial", tmp_path / "atif", lake_path)
    assert any("fine by me" in path.read_text() for path in exported)
