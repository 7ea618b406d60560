"""Events of the Prefect server that an operator may want to act on.

durabench.attempt.waiting                      an attempt waits for a person, who has not answered
durabench.cell.infrastructure                  a cell ended as infrastructure
durabench.budget.50, .80 and .100              this percentage of an experiment's budget is used
durabench.experiment.finished                  all cells of an experiment are done, or not needed
durabench.experiment.incomplete                a run of it ended with unfinished cells
durabench.regression                           a finished run does not keep a declared gate that the
                                               run before it kept

The resource of each event is the experiment, `durabench.experiment.NAME`. Events are for people and
automations: nothing else depends on them, so an event dropped by the server loses nothing else.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import httpx
from prefect.client.orchestration import get_client
from prefect.events import emit_event
from prefect.events.filters import EventFilter, EventNameFilter, EventResourceFilter
from prefect.exceptions import PrefectHTTPStatusError

from agent.journal import Journal, Limit, Wait
from flows.display.terminal import say
from flows.experiments.cell_state import End
from flows.experiments.cells import Cell
from flows.experiments.declaration import Budget
from flows.experiments.gates import FailedGate
from flows.experiments.keys import attempt_id_of
from flows.experiments.plan import Plan
from flows.storage.journals import open_journal

WAITING = "durabench.attempt.waiting"
INFRASTRUCTURE = "durabench.cell.infrastructure"
BUDGET = "durabench.budget."
FINISHED = "durabench.experiment.finished"
INCOMPLETE = "durabench.experiment.incomplete"
REGRESSION = "durabench.regression"

PERCENTAGES = (50, 80, 100)

_DETAIL_CHARACTERS = 2_000

_PAGE = 50  # the server's own limit


def resource_id(experiment: str) -> str:
    """Return the resource id of an experiment's events."""
    return f"durabench.experiment.{experiment}"


def tell_waiting(cell: Cell, wait: Wait) -> None:
    """Announce that an attempt waits for a person, and for what."""
    wanted = {"wanted": wait.wanted, "since": wait.since.isoformat(timespec="seconds")}
    _emit(cell.partition[0], WAITING, _of_cell(cell, wait.about) | wanted, [_related(cell)])


def _emit(
    experiment: str,
    event: str,
    payload: dict[str, Any],
    related: list[dict[str, str]] | None = None,
) -> None:
    resource = {
        "prefect.resource.id": resource_id(experiment),
        "prefect.resource.name": experiment,
        "durabench.event": event,
    }
    emit_event(event, resource, related=related, payload=payload)


class Announcements:
    """The events of one run of an experiment."""

    def __init__(self, plan: Plan, journal: Journal, announced: set[int]) -> None:
        """Use `of`. `announced` holds the budget percentages announced by earlier runs."""
        self._experiment = plan.experiment.name
        self._journal, self._announced = journal, announced
        self._budget = plan.experiment.budgets.get("experiment")

    @classmethod
    async def of(cls, plan: Plan) -> "Announcements":
        """Return the announcements of a plan, aware of earlier announcements on the server."""
        journal = await asyncio.to_thread(open_journal, plan.lake)
        budget = plan.experiment.budgets.get("experiment")
        announced = await _announced(plan.experiment.name, budget) if budget else set()
        return cls(plan, journal, announced)

    async def ended(self, cell: Cell, end: End, result: str) -> None:
        """Announce the end of a cell, and any budget percentage it reached."""
        if end == "infrastructure":
            self._emit(INFRASTRUCTURE, _of_cell(cell, result), [_related(cell)])
        if self._budget:
            await self._tell_budget(self._budget, result)

    async def resumed(self) -> None:
        """Announce any budget percentage that earlier runs reached."""
        if self._budget:
            await self._tell_budget(self._budget)

    def finished(self, counts: Mapping[End, int], page: str) -> None:
        """Announce the end of the run, after its report was written."""
        whole = sum(counts.values()) == counts.get("done", 0) + counts.get("not_needed", 0)
        self._emit(FINISHED if whole else INCOMPLETE, {"cells": dict(counts), "page": page})

    async def regressed(self, failed: Sequence[FailedGate], page: str) -> None:
        """Announce gates that failed, once over all runs under the name."""
        told = [str(gate) for gate in failed]
        if not await _is_announced(self._experiment, REGRESSION, {"failed": told}):
            self._emit(REGRESSION, {"failed": told, "page": page})

    async def _tell_budget(self, budget: Budget, result: str = "") -> None:
        limit = Limit("experiment", self._experiment, budget.usd, budget.calls)
        usd, calls = await asyncio.to_thread(self._journal.spent, limit)
        shares = [
            spent / most for spent, most in ((usd, budget.usd), (calls, budget.calls)) if most
        ]
        # The call that did not fit is not counted, so an exhausted budget still has a remainder.
        is_used_up = f"budget of experiment {self._experiment} " in result
        used = 100.0 if is_used_up else 100 * max(shares, default=0.0)
        for percent in PERCENTAGES:
            if used >= percent and percent not in self._announced:
                self._announced.add(percent)
                self._emit(
                    f"{BUDGET}{percent}",
                    {"percent": percent, "usd": usd, "calls": calls, "budget": budget.model_dump()},
                )

    def _emit(
        self, event: str, payload: dict[str, Any], related: list[dict[str, str]] | None = None
    ) -> None:
        _emit(self._experiment, event, payload, related)


async def _announced(experiment: str, budget: Budget) -> set[int]:
    """Return the percentages already announced for exactly this budget, not for a smaller one."""
    found = await _earlier(experiment, EventNameFilter(prefix=[BUDGET]))
    return {each["percent"] for each in found if each["budget"] == budget.model_dump()}


async def _is_announced(experiment: str, event: str, payload: Mapping[str, Any]) -> bool:
    """Return True if an event with these values was sent before."""
    found = await _earlier(experiment, EventNameFilter(name=[event]))
    return any(payload.items() <= each.items() for each in found)


async def _earlier(experiment: str, names: EventNameFilter) -> list[dict[str, Any]]:
    """Return the payloads of earlier events of an experiment."""
    chosen = EventFilter(event=names, resource=EventResourceFilter(id=[resource_id(experiment)]))
    try:
        async with get_client() as client:
            found = await client.read_events(chosen, limit=_PAGE)
    except (httpx.HTTPError, PrefectHTTPStatusError) as error:
        say(f"earlier events are unknown ({type(error).__name__}): they may be sent again")
        return []
    return [event.payload for event in found.events]


def _of_cell(cell: Cell, result: str) -> dict[str, Any]:
    return {
        "arm": cell.arm.name,
        "instance_id": cell.instance.instance_id,
        "repeat": cell.repeat,
        "attempt_id": attempt_id_of(cell),
        "detail": result[:_DETAIL_CHARACTERS],
    }


def _related(cell: Cell) -> dict[str, str]:
    return {
        "prefect.resource.id": f"durabench.cell.{attempt_id_of(cell)}",
        "prefect.resource.name": cell.label,
        "prefect.resource.role": "cell",
    }
