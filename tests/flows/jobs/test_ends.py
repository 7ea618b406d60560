"""Every job ends: its row has a final state with the reason, or a process works on it."""

from contextlib import suppress

import pytest
from prefect import flow

from eval.errors import DatasetError
from flows.display.errors import UsageError
from flows.jobs import rows
from flows.jobs.job import job, note_failure
from flows.jobs.rows import CRASHED, show_life
from flows.storage.lake import Lake
from tests.flows.jobs.conftest import NAME, REPAIR, request
from tests.servers.forge import Forge

pytestmark = [pytest.mark.usefixtures("prefect"), pytest.mark.slow]


async def test_a_job_that_an_error_stops_has_failed(forge: Forge, lake_path: str) -> None:
    """The token loses its right meanwhile. The list says so, and the same request continues."""

    def take_right(asked: str) -> None:
        if asked.endswith("/pulls"):  # the trial before the work
            forge.may_open = False

    forge.before_answer = take_right
    with pytest.raises((UsageError, DatasetError), match="does not allow a pull request"):
        await job(request(REPAIR), lake_path)
    [row] = rows.read_all(lake := Lake.existing(lake_path))
    assert row["state"] == "failed"
    assert "does not allow a pull request" in row["detail"]
    forge.may_open, forge.before_answer = True, lambda asked: None
    await job(request(REPAIR), lake_path)
    [row] = rows.read_all(lake)
    assert (row["state"], row["detail"]) == ("done", "")


async def test_a_running_job_without_a_process_has_crashed(forge: Forge, lake_path: str) -> None:
    """A job runs as long as a process holds its lease."""
    job_id = await job(request(REPAIR, publish="patch"), lake_path)
    lake = Lake.existing(lake_path)
    row = rows.update(lake, rows.find(lake, job_id), state="running")
    async with show_life(lake, job_id):
        assert rows.find(lake, job_id)["state"] == "running"
    row = rows.find(lake, job_id)
    assert (row["state"], row["detail"]) == ("crashed", CRASHED)


async def test_an_ordered_job_that_cannot_start_has_failed(forge: Forge, lake_path: str) -> None:
    """Its row has the reason, which the next one replaces, and ordering it again runs it."""
    lake, wanted = Lake.open(lake_path), request(REPAIR)
    rows.refuse(lake, wanted, "the forge is down", is_ordered=True)
    [row] = rows.read_all(lake)
    assert (row["state"], row["detail"]) == ("failed", "the forge is down")
    assert (row["title"], row["commit"]) == ("Add, don't subtract.", None)
    forge.may_write = False
    with pytest.raises((UsageError, DatasetError), match="may not write"):
        await job(wanted, lake_path)
    [row] = rows.read_all(lake)
    assert row["state"] == "failed"
    assert "may not write" in row["detail"]
    forge.may_write = True
    await job(wanted, lake_path)
    [row] = rows.read_all(lake)
    assert (row["state"], row["detail"], row["repo"]) == ("done", "", "octo/demo")
    assert row["base_commit"]


async def test_a_failure_is_told_where_the_job_was_asked_for(forge: Forge, lake_path: str) -> None:
    """In one line, and once for each order: a flow run that starts again says nothing new."""
    asked_on = f"{forge.url}/{NAME}/issues/7"
    lake, wanted = Lake.open(lake_path), request(REPAIR, asked_on=asked_on)
    assert wanted.job_id == request(REPAIR).job_id
    rows.refuse(lake, wanted, "the forge is down", is_ordered=True)

    @flow
    async def start_twice() -> None:
        for _ in range(2):
            with suppress(UsageError):
                async with note_failure(lake, wanted):
                    raise UsageError("there is\nno room")

    for order in (1, 2):
        await start_twice()
        text = f"Job `{wanted.job_id}` failed: there is no room\n\n<!-- durabench -->"
        assert forge.said == [(7, text)] * order
