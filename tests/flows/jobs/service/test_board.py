"""The state of a job, by its row in the lake and its flow run."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import pytest
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import FlowRun, State, StateType

from flows.jobs.flow_runs import id_of
from flows.jobs.service.board import Board, _status, ask
from flows.jobs.service.guard import Problem
from flows.storage.lake import Lake, Row
from tests.flows.jobs.service.recording import filed

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def run(kind: StateType | None, message: str = "", **changes: Any) -> FlowRun | None:
    """Return a flow run in a state of a type, or None without one."""
    if kind is None:
        return None
    asked = {"request": {"source": "octo/demo", "task": "Fix it.\nNow."}}
    fields = {"flow_id": uuid4(), "name": "job abc", "parameters": asked, **changes}
    return FlowRun(**fields, state_type=kind, state=State(type=kind, message=message))


def row(state: str | None, detail: str = "") -> Row | None:
    """Return the row of a job, or None without one."""
    if state is None:
        return None
    known = {"job_id": "abc", "state": state, "detail": detail, "flow_run_id": None}
    return {**known, "source": "s", "submitted_at": NOW, "updated_at": NOW}


@pytest.mark.parametrize(
    ("by_row", "by_run", "state", "is_final"),
    [
        (None, StateType.SCHEDULED, "scheduled", False),
        (None, StateType.PENDING, "scheduled", False),
        (None, StateType.RUNNING, "running", False),
        (None, StateType.FAILED, "failed", True),
        (None, StateType.CANCELLED, "cancelled", True),
        ("running", None, "running", False),
        ("running", StateType.RUNNING, "running", False),
        ("running", StateType.FAILED, "failed", True),
        ("running", StateType.CRASHED, "crashed", True),
        ("running", StateType.CANCELLED, "cancelled", True),
        ("crashed", None, "crashed", True),
        ("crashed", StateType.RUNNING, "scheduled", False),
        ("crashed", StateType.SCHEDULED, "scheduled", False),
        ("crashed", StateType.CRASHED, "crashed", True),
        ("waiting", StateType.COMPLETED, "waiting", False),
        ("waiting", StateType.SCHEDULED, "scheduled", False),
        ("waiting", StateType.PAUSED, "waiting", False),
        ("done", StateType.COMPLETED, "done", True),
        ("done", StateType.RUNNING, "running", False),
        ("failed", StateType.FAILED, "failed", True),
        ("cancelled", StateType.CANCELLING, "cancelled", False),
        ("cancelled", StateType.COMPLETED, "cancelled", True),
    ],
)
def test_an_open_flow_run_says_where_a_job_is_and_then_its_row(
    by_row: str | None, by_run: StateType | None, state: str, is_final: bool
) -> None:
    """A row that still says running ended with its flow run."""
    status = _status("abc", row(by_row), run(by_run))
    assert (status.state, status.is_final) == (state, is_final)


def test_a_run_that_failed_before_its_row_says_why() -> None:
    """Prefect's own words are left out."""
    failed = run(StateType.FAILED, "Flow run encountered an exception: DatasetError: no such\nref")
    status = _status("abc", None, failed)
    assert (status.detail, status.title) == ("DatasetError: no such ref", "Fix it.")


def test_a_run_without_a_row_in_this_lake_is_told_apart() -> None:
    """The service and the workers have different lakes."""
    assert "DURABENCH_LAKE" in _status("abc", None, run(StateType.COMPLETED)).detail


def test_the_id_of_a_job_is_known_before_it_begins() -> None:
    """By the name of its run, by its request, or by the id of its run."""
    own = uuid4()
    named, asked, neither = (
        run(StateType.SCHEDULED, id=own, name=name, parameters=parameters)
        for name, parameters in (
            ("job 0123456789", {}),
            ("odd-name", {"request": {"id": "abcdef"}}),
            ("odd-name", {"request": {}}),
        )
    )
    assert named is not None
    assert asked is not None
    assert neither is not None
    assert [id_of(each) for each in (named, asked, neither)] == [
        "0123456789",
        "abcdef",
        own.hex[:10],
    ]


async def test_a_status_is_not_older_than_the_state_of_its_run(tmp_path: Path) -> None:
    """A slow server reports a pause, and the row that was written before it has the verdict."""
    lake, job_id = Lake.open(str(tmp_path)), "0123456789"

    class SlowServer:
        """Prefect's client, while a worker writes the row and then pauses the flow run."""

        async def read_flow_runs(self, **_: Any) -> list[FlowRun | None]:
            filed(tmp_path, job_id, state="waiting", verdict="nothing_broke")
            return [run(StateType.PAUSED, name=f"job {job_id}")]

    board = Board(lake, cast(PrefectClient, SlowServer()))
    for look in (lambda: board.statuses([job_id]), board.list_jobs):
        filed(tmp_path, job_id, state="running", verdict=None)
        found = await look()
        [status] = found.values() if isinstance(found, dict) else found
        assert (status.state, status.verdict) == ("waiting", "nothing_broke")


async def test_a_server_that_answers_too_late_fails_the_request(
    set_timings: Callable[..., None],
) -> None:
    """The time is a setting, and the message asks the client to try again."""
    assert await ask(asyncio.sleep(0.1, "answered")) == "answered"
    set_timings(server_answer_s=0.05)
    with pytest.raises(Problem, match="does not answer.*try again") as failed:
        await ask(asyncio.sleep(30))
    assert failed.value.status == 503
