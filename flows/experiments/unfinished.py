"""Continue work on one cell that has a name of its own: a fork, or an instance that is debugged."""

import asyncio
import re
from dataclasses import dataclass, replace
from typing import Any

from agent.journal import Attempt
from flows.experiments import records
from flows.experiments.cell_state import CellStates
from flows.experiments.cells import Cell
from flows.experiments.declaration import Experiment
from flows.experiments.keys import attempt_id_of
from flows.experiments.plan import check, read_cells
from flows.storage.journals import open_journal


@dataclass(frozen=True)
class OwnAttempt:
    """An attempt in an experiment that has no other."""

    experiment: Experiment
    attempt: Attempt


def find_or_start(
    declared: Experiment, arm: str, lake_path: str | None, **origin: Any
) -> OwnAttempt:
    """Return the same attempt of a command that did not finish, or one under a new name.

    The experiment has one instance and no repeats. `origin` has the fields of `Attempt` that say
    what a fork starts from.

    Raises:
        DatasetError, UsageError: the instance cannot be prepared.
    """

    fresh = declared.afresh()
    chosen, environment, lake = asyncio.run(check(fresh, lake_path))

    def describe(experiment: Experiment) -> tuple[Cell, Attempt]:
        cells = read_cells(experiment, chosen, environment, lake)
        [cell] = [one for one in cells if one.arm.name == arm]
        return cell, replace(records.get_journal_attempt(cell, attempt_id_of(cell)), **origin)

    _, wanted = describe(fresh)
    own_name = re.compile(re.escape(declared.name) + r"-\d{8}t\d{6}")
    for attempt in open_journal(lake).find(""):
        same = replace(wanted, attempt_id=attempt.attempt_id, experiment=attempt.experiment)
        if attempt == same and own_name.fullmatch(attempt.experiment):
            again = declared.model_copy(update={"name": attempt.experiment})
            cell, now = describe(again)
            if now == attempt and CellStates(lake).results([cell], grade=True) == [None]:
                return OwnAttempt(again, attempt)
    return OwnAttempt(fresh, wanted)
