"""The cell of a chat: declared when the chat begins, and found again by any worker."""

import asyncio
from dataclasses import dataclass

from agent.journal import Attempt
from flows.display.errors import UsageError
from flows.experiments import forking, records
from flows.experiments.cells import Cell, Place
from flows.experiments.earlier import resume_attempts
from flows.experiments.keys import attempt_id_of
from flows.experiments.models import refuse_unusable_models
from flows.experiments.plan import declare
from flows.experiments.plan import prepare as planned
from flows.jobs import preparing, rows
from flows.jobs.chats.talk import Talk
from flows.jobs.preparing import Prepared
from flows.jobs.request import Request
from flows.storage import journals
from flows.storage.job_names import job_of
from flows.storage.lake import Lake


@dataclass(frozen=True)
class Opened:
    """The cell of an attempt, which a worker can work on."""

    cell: Cell
    job: Prepared | None
    """The job that the cell belongs to; None for a cell of another experiment."""

    @property
    def attempt_id(self) -> str:
        return attempt_id_of(self.cell)


async def begun(talk: Talk, lake: Lake) -> str:
    """Declare the attempt of a new chat. Return its id.

    Raises:
        DatasetError, UsageError: there is no such repository or instance.
        InfrastructureError: the repository cannot be reached.
    """
    if talk.repo is None:
        plan = await planned(talk.experiment(), str(lake.root))
        opened = Opened(plan.cells[0], None)
    else:
        opened = await _of_job(talk.request(), talk.arm.name, lake)
        assert opened.job is not None
        await asyncio.to_thread(
            rows.update, lake, opened.job.row, state="chat", attempt_id=opened.attempt_id
        )
    journal = await asyncio.to_thread(journals.open_journal, lake)
    attempt = records.journaled(opened.cell, opened.attempt_id)
    await asyncio.to_thread(journal.start, attempt)
    return opened.attempt_id


async def opened(attempt: Attempt, lake: Lake) -> Opened:
    """Return the cell of an attempt of any experiment or job.

    Raises:
        DatasetError, UsageError: what it was declared with is gone, or has changed since.
        InfrastructureError: its repository cannot be reached.
    """
    job_id = job_of(attempt.experiment)
    job = await asyncio.to_thread(rows.read, lake, job_id) if job_id else None
    if job is not None:
        found = await _of_job(Request.model_validate_json(job["request"]), attempt.arm, lake)
    else:
        declared = await asyncio.to_thread(forking.declared, lake, attempt)
        plan = await planned(declared, str(lake.root))
        found = Opened(plan.cell(attempt.arm, attempt.instance_id, attempt.repeat), None)
    if found.attempt_id != attempt.attempt_id:
        raise UsageError(
            f"attempt {attempt.attempt_id} was declared otherwise: its experiment "
            f"{attempt.experiment!r} has changed since"
        )
    return found


async def _of_job(request: Request, arm: str, lake: Lake) -> Opened:
    prepared = await asyncio.to_thread(preparing.prepare, request, lake)
    experiment, instance = prepared.experiment, prepared.instance
    place = Place(request.environment, network=request.network, resources=request.resources)
    await asyncio.to_thread(journals.claim, lake, experiment.name)
    declare(experiment, [instance], place.environment, lake)
    cell = Cell(experiment, experiment.arm(arm), instance, 0, place)
    [found] = await asyncio.to_thread(resume_attempts, [cell], lake)
    await asyncio.to_thread(refuse_unusable_models, experiment, [found], lake, with_keys=True)
    return Opened(found, prepared)
