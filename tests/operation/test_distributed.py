"""Experiments whose shards are flow runs that workers pick up, on a real Prefect server."""

import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterTags
from prefect.client.schemas.objects import State
from prefect.flow_engine import run_flow_async
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.states import Cancelled, Failed, Pending, Running

from flows.experiments import declaration
from flows.experiments.cell_state import End
from flows.experiments.cells import Cell
from flows.experiments.plan import prepare
from flows.server.shard_runs import Order, lease_name, was_given_up
from flows.server.shards import FlowRunShards
from flows.shard import shard
from flows.storage import journals
from flows.storage.lake import Lake
from tests.operation.running import (
    begin,
    declared,
    done,
    expect,
    kill_all,
    report,
    resolved,
    shards,
    states,
    wait_until,
)
from tests.operation.storms import arms
from tests.servers.openai_server import OpenAIServer, unauthorised
from tests.servers.prefect_server import PrefectServer
from tests.servers.simulated_server import Simulation

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


CRASH = r"""
p=$$
until tr '\0' ' ' < /proc/$p/cmdline | grep -qE 'prefect|flows.server.engine'
do p=$(cut -d' ' -f4 /proc/$p/stat); done
kill -9 $p
"""
"""A command that kills the process of its shard."""


@contextmanager
def one_cell_at_a_time(server: PrefectServer) -> Iterator[None]:
    """Limit the server to one concurrent cell during the block."""
    server.run("durabench", "setup", "--cells", "1")
    try:
        yield
    finally:
        server.run("durabench", "setup", "--cells", "64")


@pytest.mark.full
@pytest.mark.usefixtures("workers")
def test_a_run_whose_key_is_wrong_stops(server: PrefectServer) -> None:
    """It stops, although only its workers see that."""
    with OpenAIServer(lambda _: unauthorised()) as models:
        model = {"name": "openai/any", "api_base": models.url}
        only = {"name": "mini", "agent": "mini", "model": model}
        failing = begin(server, name="braked", arms=[only], select={"slice": ":15"})
        expect(server, failing, code=3)
        assert len(models.requests) < 15
    last = server.printed(failing).splitlines()[-1]
    assert "cells all ended as infrastructure for one cause: refused: Incorrect API key" in last
    assert "COMPLETED" not in states(server, "braked")


def all_logged(server: PrefectServer, runs: list[str], expected: list[str]) -> list[str] | None:
    """Return the log messages of flow runs, or None if an expected one is still missing."""
    messages = [record["message"] for run in runs for record in server.records(run)]
    there = [any(re.match(pattern, line) for line in messages) for pattern in expected]
    return messages if all(there) else None


@pytest.mark.full
@pytest.mark.usefixtures("workers")
def test_a_run_can_be_watched(server: PrefectServer) -> None:
    """Shards are children of the benchmark, and cells are task runs in the graph of their shard.
    Names and states say what happened. The steps of a cell are in the log of its shard, and its end
    is in that of the benchmark."""
    expect(server, begin(server, name="seen", select={"sample": 1}))
    # The others may leave a shard no cell before it starts. It is cancelled then, after the run.
    ended = {"COMPLETED", "CANCELLED"}
    wait_until(lambda: ended.issuperset(states(server, "seen")))
    of_run = [run for run in shards(server, "seen") if run["state"]["type"] != "CANCELLED"]
    assert all(re.fullmatch(r"seen: shard [12] of [12]", run["name"]) for run in of_run)
    assert all("durabench" in run["tags"] for run in of_run)
    messages = " ".join(run["state"]["message"] for run in of_run)
    assert "1 resolved" in messages
    assert "1 unresolved" in messages

    [benchmark] = server.post("/flow_runs/filter", {"flow_runs": {"name": {"any_": ["seen"]}}})
    assert benchmark["tags"] == ["durabench"]
    assert benchmark["state"]["message"] == "2 cells done · results of seen"
    # The server stores task runs from events, some time after what they tell.
    runs = {run["parent_task_run_id"]: run for run in of_run}
    children = wait_until(partial(completed, server, [benchmark["id"]], len(runs)))
    assert {each["id"]: each["name"] for each in children if each["id"] in runs} == {
        parent: run["name"] for parent, run in runs.items()
    }

    [instance] = {cell.instance_id for cell in report(server, "seen").cells}
    cells = {f"{arm} · {instance}" for arm in ("mini", "null")}
    # A patch that another experiment of the lake had graded is not graded again.
    said: dict[str, str] = {}

    def have_ended() -> bool:
        tasks = completed(server, [run["id"] for run in of_run], len(cells)) or ()
        said.update({task["name"]: task["state"]["message"] for task in tasks})
        return cells <= said.keys()

    wait_until(have_ended)
    assert said.keys() <= cells | {f"grade {cell}" for cell in cells}
    assert re.fullmatch(r"submitted · \d+ calls · \$0\.\d+", said[f"mini · {instance}"])
    if verdict := said.get(f"grade mini · {instance}"):
        assert re.match(r"resolved, fail-to-pass (\d+) of \1, ", verdict)
    # A process sends its last records after its flow run has ended.
    told = [rf"\[./2\] {arm} · {instance}: (un)?resolved" for arm in ("mini", "null")]
    assert all_logged(server, [benchmark["id"]], told)
    expected = [f"{arm} · {instance}: submitted" for arm in ("mini", "null")]
    messages = wait_until(partial(all_logged, server, [run["id"] for run in of_run], expected))
    assert any(re.match(r"\d+ +command ", line) for line in messages)


def completed(server: PrefectServer, runs: list[str], count: int) -> list[dict[str, Any]] | None:
    """Return the completed task runs of flow runs, or None if fewer than `count` have completed.

    A shard that was cancelled, since the others left it no cell, has a cancelled task run.
    """
    chosen = {"flow_runs": {"id": {"any_": runs}}, "limit": 200}
    found: list[dict[str, Any]] = server.post("/task_runs/filter", chosen)
    left = [task for task in found if task["state"]["type"] != "CANCELLED"]
    ended = [task for task in left if task["state"]["type"] == "COMPLETED"]
    return ended if len(ended) == len(left) >= count else None


@pytest.mark.full
@pytest.mark.usefixtures("workers")
def test_a_killed_benchmark_finds_its_shards_again(
    server: PrefectServer, simulation: Simulation, api_base: str
) -> None:
    """A benchmark that replaces a killed one joins its shards, and no cell is solved twice."""
    early, late = "skill-0.5", "skill-1.0"
    simulation.held = frozenset({early, late})
    declared = {"arms": [*arms(api_base, ["0.5", "1.0"]), {"name": "null", "agent": "null"}]}
    first = begin(server, name="found", concurrency=6, **declared)
    wait_until(lambda: {early, late} <= simulation.asked and done(server, "found") == 2)
    kill_all(first)
    begun = {run["id"] for run in shards(server, "found")}
    second = begin(server, name="found", concurrency=6, **declared)
    wait_until(lambda: "[2/6] done by an earlier run" in server.printed(second))
    simulation.held = frozenset({late})  # so that the shards cannot end before it joins them
    wait_until(lambda: "[3/6]" in server.printed(second))
    simulation.held = frozenset()
    expect(server, second)
    assert {run["id"] for run in shards(server, "found")} == begun
    assert set(simulation.calls.values()) == {1}
    assert resolved(server, "found") == {early: 2, late: 2, "null": 0}
    assert done(server, "found") == 6


@pytest.mark.full
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
def test_a_cell_that_always_crashes_ends_as_infrastructure(server: PrefectServer) -> None:
    """A cell whose processes die twice ends as infrastructure. Other cells are not affected."""
    model = {"provider": "scripted", "replies": [{"command": CRASH}]}
    arms = [{"name": "deadly", "agent": "mini", "model": model}, {"name": "null", "agent": "null"}]
    running = begin(server, name="deadly", arms=arms, select={"sample": 1}, concurrency=1)
    expect(server, running, 3)
    ended = Counter(states(server, "deadly"))
    assert ended == {"CRASHED": 2, "COMPLETED": 1}
    printed = server.printed(running)
    assert printed.count("infrastructure: its process died twice") == 1
    assert "1 of 2 cells ended as infrastructure" in printed
    assert resolved(server, "deadly") == {"deadly": 0, "null": 0}
    assert done(server, "deadly") == 1


@asynccontextmanager
async def opened(
    server: PrefectServer, name: str, lake: Path, **changes: Any
) -> AsyncIterator[tuple[PrefectClient, FlowRunShards]]:
    """The shards of an experiment of one shard, in a lake. Their flow runs are deleted again."""
    with temporary_settings({PREFECT_API_URL: server.url}):
        async with get_client() as client:
            yield client, await shards_of(client, name, lake, **changes)
            for run in await client.read_flow_runs(flow_run_filter=tagged(name)):
                await client.delete_flow_run(run.id)


async def shards_of(client: PrefectClient, name: str, lake: Path, **changes: Any) -> FlowRunShards:
    experiment = declaration.parse(declared(name=name, **changes), "test")
    plan = await prepare(experiment, str(lake))
    order = Order(plan, None, journals.home(plan.lake), grade=True)
    return await FlowRunShards.open(order, journals.open_journal(plan.lake), client)


async def start_four(shards: FlowRunShards) -> None:
    """Start shards for four cells."""
    shards.queue.add(["a", "b", "c", "d"])
    await shards.start(4, never)


async def never(cell: Cell, end: End, result: str) -> None:
    """Fail: shards elsewhere end their cells in the queue."""
    raise AssertionError(cell)


def only(shards: FlowRunShards) -> UUID:
    """The flow run of the first shard."""
    return shards._runs[1].id


async def test_equal_cells_of_another_lake_have_their_own_shards(
    server: PrefectServer, tmp_path: Path
) -> None:
    """Equal cells of two lakes have separate queues, although their attempt ids are equal."""
    begun, queues = [], []
    with temporary_settings({PREFECT_API_URL: server.url}):
        async with get_client() as client:
            for user in ("one", "other", "other"):
                shards = await shards_of(client, "equal", tmp_path / user)
                await start_four(shards)
                begun.append(only(shards))
                queues.append(shards.queue.run)
            for run in await client.read_flow_runs(flow_run_filter=tagged("equal")):
                await client.delete_flow_run(run.id)
    assert begun[0] != begun[1] == begun[2]
    assert queues[0] != queues[1] == queues[2]


def tagged(name: str) -> FlowRunFilter:
    return FlowRunFilter(tags=FlowRunFilterTags(all_=[f"experiment:{name}"]))


async def test_a_shard_is_taken_from_a_worker_that_has_another_one(
    server: PrefectServer, tmp_path: Path
) -> None:
    """While a worker is idle, flow runs are created one by one, so that one worker does not get
    all. One that gets two loses the second to the idle worker before it begins."""
    changes = {"concurrency": 8, "repeats": 2}
    async with opened(server, "crowded", tmp_path, **changes) as (client, shards):
        for worker in ("crowded", "idle"):
            await client.send_worker_heartbeat("durabench", worker)
        await start_four(shards)
        await shards.watch()
        assert [*shards._runs] == [1]
        await take_as("crowded", client, only(shards))
        await shards.watch()
        second = shards._runs[2].id
        await take_as("crowded", client, second)
        await shards.watch()
        state = (await client.read_flow_run(second)).state
        assert state.is_cancelling()
        assert state.message == "crowded has another shard of this run: this one goes to idle"
        assert await was_given_up(second)
        third = shards._runs[2].id
        await take_as("idle", client, third)
        await shards.watch()
        assert [run.id for run in shards._runs.values()] == [only(shards), third]
    for worker in ("crowded", "idle"):
        server.delete(f"/work_pools/durabench/workers/{worker}")


async def take_as(worker: str, client: PrefectClient, run: UUID) -> None:
    """Take a flow run as a worker does."""
    await client.set_flow_run_state(run, Pending(), force=True)
    await client.update_flow_run_labels(run, {"prefect.worker.name": worker})


async def test_a_flow_run_that_stays_pending_is_replaced(
    server: PrefectServer, set_timings: Callable[..., None], tmp_path: Path
) -> None:
    """A flow run that stays pending is marked as crashed and replaced. If it begins after all, it
    takes no cells."""
    set_timings(pending_s=1e-6)
    async with opened(server, "pending", tmp_path) as (client, shards):
        await start_four(shards)
        first = only(shards)
        await shards.watch()
        assert only(shards) == first
        await client.set_flow_run_state(first, Pending(), force=True)
        await shards.watch()
        assert (await client.read_flow_run(first)).state.is_crashed()
        second = only(shards)
        assert second != first
        late = await client.read_flow_run(first)
        given = {**late.parameters, "home": None}
        ended = await run_flow_async(shard, flow_run=late, parameters=given, return_type="state")
        assert (ended.is_cancelled(), shards.queue.count_unended()) == (True, 4)
        again = await shards_of(client, "pending", tmp_path)
        await start_four(again)
        assert only(again) == second


@pytest.mark.full
async def test_a_shard_that_does_not_end_is_cancelled(
    server: PrefectServer, set_timings: Callable[..., None], tmp_path: Path
) -> None:
    """All cells are done. If the process of a flow run has died, nothing else would end it: the
    server may have lost its first heartbeat."""
    set_timings(stop_grace_s=0.1)
    async with opened(server, "endless", tmp_path) as (client, shards):
        await start_four(shards)
        first = only(shards)
        await client.set_flow_run_state(first, Running(), force=True)
        await shards.watch()
        await shards.stop(cancel=False)
        assert (await client.read_flow_run(first)).state.is_cancelling()


async def test_a_shard_whose_lease_expired_is_replaced(
    server: PrefectServer, tmp_path: Path
) -> None:
    """A running shard is replaced when its lease has expired, and not while it is held."""
    async with opened(server, "silent", tmp_path) as (client, shards):
        await start_four(shards)
        first, journal = only(shards), journals.open_journal(Lake.existing(tmp_path))
        await client.set_flow_run_state(first, Running(), force=True)
        name = lease_name(first)
        journal.offer(name)
        journal.acquire(name, "elsewhere/1-1", 300)
        await shards.watch()
        assert only(shards) == first
        journal.expire(name, "elsewhere/1-1")
        await shards.watch()
        assert only(shards) != first
        state = (await client.read_flow_run(first)).state
        assert state.is_crashed()
        assert "no longer renews its lease" in str(state.message)


@pytest.mark.full
@pytest.mark.parametrize(
    ("state", "end", "why"),
    [
        (Failed(message="another dataset"), "infrastructure", "another dataset"),
        (Cancelled(message="by hand"), "interrupted", "its shard was cancelled"),
    ],
    ids=["failed", "cancelled"],
)
async def test_a_shard_that_ended_otherwise_is_not_replaced(
    server: PrefectServer, tmp_path: Path, state: State[None], end: str, why: str
) -> None:
    """A shard that failed or was cancelled by an operator is not replaced."""
    name = f"otherwise-{end}"
    async with opened(server, name, tmp_path) as (client, shards):
        await start_four(shards)
        runs = await client.read_flow_runs(flow_run_filter=tagged(name))
        for run in runs:
            await client.set_flow_run_state(run.id, state, force=True)
        await shards.watch()
        assert not shards.is_at_work
        assert shards.why_none[0] == end
        assert why in shards.why_none[1]
        assert len(await client.read_flow_runs(flow_run_filter=tagged(name))) == len(runs)


@pytest.mark.full
def test_without_a_deployment_the_run_says_what_to_do(tmp_path: Path) -> None:
    """Without a deployment, the run ends as wrong usage with one line that says what to do."""
    with PrefectServer(tmp_path / "bare") as bare:
        running = begin(bare)
        expect(bare, running, 2)
        printed = bare.printed(running)
    assert "no deployment shard/shard" in printed
    assert "prefect deploy --all" in printed
