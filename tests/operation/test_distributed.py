"""Experiments whose cells are flow runs that workers pick up, on a real Prefect server."""

import asyncio
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from itertools import pairwise
from pathlib import Path
from uuid import UUID

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import FlowRun
from prefect.events import Event
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.states import Pending, Running

from agent.timings import timings
from flows.experiments import declaration
from flows.experiments.plan import prepare
from flows.server import fanout
from flows.server.settings import CELLS
from flows.storage import journals
from flows.storage.lake import Lake
from tests.operation.running import (
    begin,
    declared,
    expect,
    kill_all,
    order,
    report,
    resolved,
    state,
    states,
    wait_until,
)
from tests.servers.prefect_server import PrefectServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


CRASH = r"""
p=$$
until tr '\0' ' ' < /proc/$p/cmdline | grep -q prefect; do p=$(cut -d' ' -f4 /proc/$p/stat); done
kill -9 $p
"""
"""A command that kills the process of its flow run."""


@contextmanager
def one_cell_at_a_time(server: PrefectServer) -> Iterator[None]:
    """Limit the server to one concurrent cell during the block."""
    server.run("durabench", "setup", "--cells", "1")
    try:
        yield
    finally:
        server.run("durabench", "setup", "--cells", "64")


@pytest.mark.usefixtures("workers")
def test_workers_produce_the_results_of_one_process(server: PrefectServer) -> None:
    """Workers produce the same results and costs as one process, and a second run adds nothing."""
    expect(server, begin(server))
    expect(server, begin(server, name="alone", execution="local"))
    apart, alone = report(server, "apart").arms, report(server, "alone").arms
    for one, other in zip(apart, alone, strict=True):
        assert (one.name, one.resolved, one.planned) == (other.name, other.resolved, other.planned)
        assert one.cost.usd == pytest.approx(other.cost.usd)
    assert states(server, "apart") == ["COMPLETED"] * 4
    expect(server, begin(server))
    assert states(server, "apart") == ["COMPLETED"] * 4


def all_logged(server: PrefectServer, flow_run_id: str, expected: list[str]) -> list[str] | None:
    """Return the log messages of a flow run, or None if an expected one is still missing."""
    messages = [record["message"] for record in server.records(flow_run_id)]
    there = [any(re.match(pattern, line) for line in messages) for pattern in expected]
    return messages if all(there) else None


@pytest.mark.usefixtures("workers")
def test_a_cell_on_a_worker_is_in_its_log(server: PrefectServer) -> None:
    """The Logs tab of a cell's flow run shows its steps, its cost and its verdict.

    The instance is one that no other test here grades, as a cached verdict has no record.
    """
    expect(server, begin(server, name="logged", select={"ids": ["durabench__quillet-1"]}))
    chosen = {"flow_runs": {"tags": {"all_": ["experiment:logged"]}}}
    labels = {}
    for run in server.post("/flow_runs/filter", chosen):
        _, _, label = run["name"].partition(": ")
        labels[label.split()[0]] = label, run["id"]
    ends = {"mini": r"resolved, \d+ calls, \$0\.\d+$", "null": "unresolved$"}
    assert labels.keys() == ends.keys()
    for arm, (label, run_id) in labels.items():
        # A process sends its last log records after its flow run has ended.
        expected = [f"{label}: {ends[arm]}", f"grade {label}: "]
        messages = wait_until(partial(all_logged, server, run_id, expected))
        assert any(re.match(r"\d+ +command ", line) for line in messages) == (arm == "mini")


@pytest.mark.usefixtures("workers")
def test_a_killed_benchmark_finds_its_cells_again(server: PrefectServer) -> None:
    """A benchmark that replaces a killed one reuses the flow runs of its cells."""
    first = begin(server, name="found")
    wait_until(lambda: states(server, "found"))
    kill_all(first)
    expect(server, begin(server, name="found"))
    assert states(server, "found") == ["COMPLETED"] * 4
    assert resolved(server, "found") == {"mini": 2, "null": 0}


@pytest.mark.usefixtures("workers")
def test_two_schedulers_share_the_flow_runs(server: PrefectServer) -> None:
    """Two concurrent benchmarks of one experiment share the flow runs of its cells."""
    both = [begin(server, name="shared") for _ in range(2)]
    for each in both:
        expect(server, each)
    assert states(server, "shared") == ["COMPLETED"] * 4


@pytest.mark.usefixtures("workers")
def test_the_limit_over_all_cells_holds_over_workers(server: PrefectServer) -> None:
    """With a limit of one concurrent cell, no attempts overlap on any worker."""
    with one_cell_at_a_time(server):
        expect(server, begin(server, name="narrow"))
    lake = Lake.existing(server.folder / "lake")
    rows = sorted(lake.rows("attempts", "narrow"), key=lambda row: row["started_at"])
    assert len(rows) == 4
    for one, after in pairwise(rows):
        assert one["started_at"] + timedelta(seconds=one["duration_s"]) <= after["started_at"]


@pytest.mark.full
@pytest.mark.usefixtures("workers")
def test_a_slot_of_a_killed_cell_is_free_again(server: PrefectServer) -> None:
    """A slot whose holder no longer renews it is released when its lease expires."""
    slot_s = timings().slot_lease_s
    with one_cell_at_a_time(server):
        held = {"names": [CELLS], "slots": 1, "lease_duration": slot_s}
        server.post("/v2/concurrency_limits/increment-with-lease", held)
        started = time.monotonic()
        alive = [{"name": "null", "agent": "null"}]
        expect(server, begin(server, name="next", arms=alive, select={"sample": 1}))
        assert slot_s / 2 < time.monotonic() - started < 3 * slot_s
    assert resolved(server, "next") == {"null": 0}


@pytest.mark.usefixtures("workers")
def test_a_server_that_was_killed_is_waited_for(server: PrefectServer) -> None:
    """A benchmark survives the crash and restart of the Prefect server."""
    running = begin(server, name="powercut")
    wait_until(lambda: "RUNNING" in states(server, "powercut"))
    server.stop(signal.SIGKILL)
    time.sleep(5)
    server.start()
    expect(server, running)
    assert resolved(server, "powercut") == {"mini": 2, "null": 0}


@pytest.mark.usefixtures("workers")
def test_a_cancelled_benchmark_cancels_its_cells_and_resumes_later(server: PrefectServer) -> None:
    """Cancelling a benchmark's flow run cancels its cells, and a second run resumes them."""
    arms = declared()["arms"][:1]
    content = declared(name="cancelled", arms=arms, repeats=2)
    run = order(server, "benchmark", {"experiment": content})
    # Prefect takes five minutes to cancel a run that a worker has taken but not started.
    wait_until(lambda: is_running_and_none_is_pending(states(server, "cancelled")))
    server.prefect("flow-run", "cancel", run)
    over = {"COMPLETED", "CANCELLED", "FAILED", "CRASHED"}
    wait_until(lambda: state(server, run) in over)
    assert state(server, run) == "CANCELLED"
    wait_until(lambda: set(states(server, "cancelled")) <= over, 400)
    expect(server, begin(server, name="cancelled", arms=arms, repeats=2))
    assert resolved(server, "cancelled") == {"mini": 4}


def is_running_and_none_is_pending(states: list[str]) -> bool:
    return "RUNNING" in states and "PENDING" not in states


@pytest.mark.usefixtures("workers")
def test_a_cell_that_always_crashes_ends_as_infrastructure(server: PrefectServer) -> None:
    """A cell whose flow runs crash three times is recorded as infrastructure.

    Other cells are not affected.
    """
    model = {"provider": "scripted", "replies": [{"command": CRASH}]}
    arms = [{"name": "deadly", "agent": "mini", "model": model}, {"name": "null", "agent": "null"}]
    running = begin(server, name="deadly", arms=arms, select={"sample": 1})
    expect(server, running, 3)
    assert states(server, "deadly") == ["COMPLETED", *["CRASHED"] * fanout.CRASHES]
    assert "1 of 2 cells ended as infrastructure" in server.printed(running)
    deadly = {cell.arm: cell for cell in report(server, "deadly").cells}["deadly"]
    assert deadly.attempt_id is None


async def test_equal_cells_of_another_lake_have_their_own_flow_runs(
    server: PrefectServer, tmp_path: Path
) -> None:
    """Equal cells of two lakes have separate flow runs, although their attempt ids are equal."""
    experiment = declaration.parse(declared(name="equal"), "test")
    begun = []
    with temporary_settings({PREFECT_API_URL: server.url}):
        async with get_client() as client:
            for user in ("one", "other", "other"):
                plan = await prepare(experiment, str(tmp_path / user))
                order = fanout.Order(plan, None, journals.home(plan.lake), grade=True)
                runs = await fanout.FlowRuns.open(order, client)
                begun.append(await runs.begin(plan.cells[0]))
            for each in set(begun):
                await client.delete_flow_run(each)
    assert begun[0] != begun[1] == begun[2]


async def test_a_flow_run_that_stays_pending_is_replaced(
    server: PrefectServer, set_timings: Callable[..., None], tmp_path: Path
) -> None:
    """A flow run that stays pending is marked as crashed and replaced."""
    set_timings(pending_s=1e-6)
    experiment = declaration.parse(declared(name="pending"), "test")
    plan = await prepare(experiment, str(tmp_path))
    cell = plan.cells[0]
    order = fanout.Order(plan, None, journals.home(plan.lake), grade=True)
    with temporary_settings({PREFECT_API_URL: server.url}):
        async with get_client() as client:
            runs = await fanout.FlowRuns.open(order, client)
            first = await runs.begin(cell)
            assert await runs.over({first: cell}) == []
            await client.set_flow_run_state(first, Pending(), force=True)
            [over] = await runs.over({first: cell})
            assert over.id == first
            assert (await client.read_flow_run(first)).state.is_crashed()
            second = await runs.begin(cell)
            assert second != first
            again = await fanout.FlowRuns.open(order, client)
            assert await again.begin(cell) == second
            await client.delete_flow_run(second)


async def test_a_running_flow_run_without_heartbeats_is_marked_as_crashed(
    server: PrefectServer, set_timings: Callable[..., None], tmp_path: Path
) -> None:
    """A running flow run without heartbeats is marked as crashed; one with heartbeats is kept."""
    set_timings(heartbeat_silence_s=20.0)
    plan = await prepare(declaration.parse(declared(name="silent"), "test"), str(tmp_path))
    dead, alive = plan.cells[:2]
    order = fanout.Order(plan, None, journals.home(plan.lake), grade=True)
    with temporary_settings({PREFECT_API_URL: server.url}):
        async with get_client() as client:
            runs = await fanout.FlowRuns.open(order, client)
            cells = {await runs.begin(dead): dead, await runs.begin(alive): alive}
            for each in cells:
                await client.set_flow_run_state(each, Running(), force=True)
            over: list[FlowRun] = []
            deadline = time.monotonic() + 180
            while not over and time.monotonic() < deadline:
                beat(server, list(cells)[1])
                await asyncio.sleep(1)
                over = await runs.over(cells)
            assert [cells[run.id] for run in over] == [dead]
            assert (await client.read_flow_run(over[0].id)).state.is_crashed()
            await client.delete_flow_run(list(cells)[1])


def beat(server: PrefectServer, run: UUID) -> None:
    """Send a heartbeat as the process of a flow run does."""
    event = Event(
        event="prefect.flow-run.heartbeat",
        resource={"prefect.resource.id": f"prefect.flow-run.{run}"},
    )
    server.post("/events", [event.model_dump(mode="json")])


def test_without_a_deployment_the_run_says_what_to_do(tmp_path: Path) -> None:
    """Without a deployment, the run ends as wrong usage with one line that says what to do."""
    with PrefectServer(tmp_path / "bare") as bare:
        running = begin(bare)
        expect(bare, running, 2)
        printed = bare.printed(running)
    assert "no deployment solve/solve" in printed
    assert "prefect deploy --all" in printed
