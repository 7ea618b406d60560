"""A shard: a flow run that solves and grades many cells of a distributed benchmark."""

import asyncio
from collections import Counter
from uuid import UUID

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run
from prefect.states import Cancelled, Completed

from flows.cells.loop import run_shard
from flows.display.errors import UsageError
from flows.experiments.cell_queue import ShardPart
from flows.experiments.cell_state import REFUSED
from flows.experiments.declaration import Experiment
from flows.server.flow_run import end_as_state, fail
from flows.server.shard_runs import lease_name, was_given_up
from flows.server.stopping import graceful_stop
from flows.storage.journals import Home, check_home
from flows.storage.lake import Lake
from reports.format import plural


@flow(name="shard", flow_run_name="{experiment.name}: shard {number} of {shards}")
@end_as_state
async def shard(
    experiment: Experiment,
    queue: str,
    number: int = 1,
    shards: int = 1,
    concurrency: int = 4,
    lake: str | None = None,
    *,
    grade: bool = True,
    home: Home | None = None,
) -> State[dict[str, int]]:
    """Solve and grade cells of an experiment until its queue is empty. The benchmark starts it.

    Args:
        experiment: The experiment that the cells belong to.
        queue: Name of the queue in the journal.
        number: Number of the shard, counted from 1; it decides which cells the shard takes first.
        shards: Number of shards of the queue.
        concurrency: Maximum number of concurrent cells of this shard.
        lake: Location of the results, a folder as the worker sees it or s3://…; by default the
            worker's DURABENCH_LAKE.
        grade: Grade the patches now, or leave that to a later run.
        home: The lake and the journal of the benchmark. A worker that uses others refuses the
            shard, as does one with another dataset, or without something that the cells need.

    Raises:
        Interrupted: the operator asked to stop; calls in flight are recorded.
    """
    part, run = ShardPart(queue, number, shards), UUID(flow_run.id)
    try:
        if home is not None:
            await asyncio.to_thread(check_home, Lake.existing(lake), home)
        if await was_given_up(run):
            return Cancelled(message="Another shard had taken its place before it started.")
        async with graceful_stop() as stop:
            outcomes = await run_shard(
                experiment, lake, part, concurrency, lease_name(run), grade=grade, stop=stop
            )
            stop.check()
    except UsageError as error:
        return fail(error, REFUSED)
    return Completed(message=summary(outcomes), data=dict(outcomes))


def summary(outcomes: Counter[str]) -> str:
    """Return the outcomes of a shard in one line: `12 cells · 9 resolved · 3 unresolved`."""
    cells = plural(outcomes.total(), "cell")
    return " · ".join([cells, *(f"{number} {what}" for what, number in outcomes.items())])
