"""The flow of a chat: work on an attempt until it ends, or waits for a person for a while."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from functools import partial

from prefect import flow
from prefect.states import Completed

from agent.errors import BudgetExhausted, InfrastructureError, Waiting
from flows.cells.attempts import solve_only
from flows.cells.images.schedule import schedule_images
from flows.display.errors import IncompleteRun, UsageError
from flows.experiments.cell_state import CellStates
from flows.experiments.cells import Cell
from flows.experiments.stop import Stop
from flows.jobs import rows
from flows.jobs.mailbox import Mailbox
from flows.jobs.preparing import open_place
from flows.jobs.talk import Opened, Talk, begin_chat, open_cell
from flows.server.flow_run import end_as_state, find_own, name_run
from flows.server.logs import run_log
from flows.server.stopping import graceful_stop
from flows.server.turns import in_turn
from flows.storage.cleanup import clean_up_around
from flows.storage.lake import Lake

on_stop: ContextVar[Callable[[Stop], None]] = ContextVar("on_stop", default=lambda stop: None)
"""Receives the stop request of each run; set by a terminal that ends turns."""


@flow(name="chat")
@end_as_state
async def chat(
    attempt: str | None = None, talk: Talk | None = None, lake: str | None = None
) -> str:
    """Continue an attempt that people talk with, until it ends or waits. Return its id.

    It waits with its worker for a few minutes. After that, the next message starts it again.

    Args:
        attempt: Id of the attempt to continue, or a prefix of it.
        talk: A new chat to start instead.
        lake: Location of the results, a folder as the worker sees it or s3://…; by default the
            worker's DURABENCH_LAKE.

    Raises:
        DatasetError, UsageError: the attempt, the repository or the instance does not exist.
        IncompleteRun: the infrastructure failed or a budget is exhausted; run again to continue.
        Interrupted: the operator asked to stop; calls in flight are recorded.
    """
    store = Lake.open(lake)
    if (attempt is None) == (talk is None):
        raise UsageError("name an attempt to continue, or a chat to start, and not both")
    if talk is not None:
        run = find_own()
        if run is not None and run.deployment_id is not None and "id" not in talk.model_fields_set:
            talk = talk.model_copy(update={"id": run.id.hex[:10]})  # the same in a retry of the run
        attempt = await begin_chat(talk, store)
    mailbox = Mailbox.of(store, attempt or "")
    await name_run(f"chat {mailbox.attempt_id[:12]}")
    opened = await open_cell(mailbox.attempt, store)
    async with (
        graceful_stop() as stop,
        clean_up_around(store),
        _at_its_place(opened, store, stop) as cell,
    ):
        on_stop.get()(stop)
        try:
            await in_turn(partial(solve_only, cell, store, stop=stop), cell.label, store, stop)
        except Waiting as waiting:
            run_log().info("%s: %s", cell.label, waiting)
            return Completed(name="Waiting", message=str(waiting), data=mailbox.attempt_id)  # type: ignore[return-value]  # Prefect unwraps it
        except (InfrastructureError, BudgetExhausted) as error:
            raise IncompleteRun(f"{cell.label}: {error}") from error
    await asyncio.to_thread(_close, opened, store)
    return Completed(message=mailbox.get_state().ending, data=mailbox.attempt_id)  # type: ignore[return-value]  # as above


@asynccontextmanager
async def _at_its_place(opened: Opened, lake: Lake, stop: Stop) -> AsyncIterator[Cell]:
    """Yield the cell with its image, which is kept during the block."""
    cell = opened.cell
    if opened.job is not None:
        async with open_place(opened.job, lake) as place:
            yield cell.at(place)
        return
    experiment, states = cell.experiment, CellStates(lake)
    state_of = partial(states.cell_at, grade=False)
    async with (
        schedule_images(
            [cell], experiment.dataset, experiment.images, lake, state_of, stop
        ) as places,
        places.open(cell) as place,
    ):
        yield cell.at(place)


def _close(opened: Opened, lake: Lake) -> None:
    """Write the patch of a chat in a repository into the row of its job."""
    job = opened.job
    if job is None or job.row["state"] != "chat":
        return
    predictions = lake.read("predictions", *opened.cell.partition, opened.attempt_id)
    [attempt] = lake.read("attempts", *opened.cell.partition, opened.attempt_id)
    sums = ("cost_usd", "billed_usd", "input_tokens", "output_tokens")
    rows.update(
        lake,
        job.row,
        state="done",
        patch=predictions[0]["model_patch"] if predictions else None,
        arm=opened.cell.arm.name,
        **{name: attempt[name] for name in sums},
    )
