"""Solve a cell without Prefect and without grading."""

from agent import models
from agent.arms import ARMS
from agent.journal import Journal
from agent.journal.holding import hold_lease
from agent.session.log import JournalLog
from agent.session.session import Session
from agent.types import Outcome
from flows.experiments.cell_state import to_text
from flows.experiments.cells import Cell
from flows.experiments.workspaces import AttemptWorkspaces
from flows.storage.journals import blobs
from flows.storage.lake import Lake


async def solve(cell: Cell, lake: Lake, journal: Journal, attempt_id: str) -> Outcome:
    """Run the arm of a cell over what is recorded, and end the attempt. Return its outcome."""
    options = cell.arm.options
    own = cell.experiment.model_of(cell.arm)
    assert own is not None, "the arm has a model"
    built = {
        role: models.build(spec, cell.task, cell.seed) for role, spec in options.models(own).items()
    }
    async with hold_lease(journal, attempt_id) as lease:
        log = JournalLog(journal, lease, blobs(lake), journal.steps(attempt_id))
        place = AttemptWorkspaces(cell.instance, cell.place, attempt_id, journal.id, attempt_id)
        async with Session.start(
            attempt_id=attempt_id,
            models=built,
            workspaces=place,
            log=log,
        ) as session:
            outcome = await ARMS[cell.arm.agent].solve(cell.task, session, options)
        journal.end(lease, to_text(outcome))
        return outcome
