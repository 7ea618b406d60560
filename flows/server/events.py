"""Events of the Prefect server that an operator may want to act on.

durabench.attempt.waiting                      an attempt waits for a person, who has not answered
durabench.cell.infrastructure                  a cell ended as infrastructure
durabench.budget.50, .80 and .100              this percentage of an experiment's budget is used
durabench.experiment.finished                  all cells of an experiment are done, or not needed
durabench.experiment.incomplete                a run of it ended with unfinished cells
durabench.regression                           a finished run does not keep a declared gate that the
                                               run before it kept

The resource of each event is the experiment, `durabench.experiment.NAME`. Events are for people and
automations: nothing else depends on them. A run continues when the server has received an event, as
it does for its own state. Prefect's queue of events would lose the last ones, if the server dies.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import httpx
from prefect.client.orchestration import get_client
from prefect.events import Event, RelatedResource, Resource
from prefect.events.filters import EventFilter, EventNameFilter, EventResourceFilter
from prefect.events.related import related_resources_from_run_context
from prefect.exceptions import PrefectHTTPStatusError

from agent.errors import one_line
from agent.journal import Journal, Limit, Wait
from flows.display.terminal import say
from flows.experiments.cell_state import End
from flows.experiments.cells import Cell
from flows.experiments.declaration import Budget
from flows.experiments.gates import FailedGate
from flows.experiments.keys import attempt_id_of
from flows.experiments.plan import Plan
from flows.server.retry import patiently
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


async def announce_waiting(cell: Cell, wait: Wait) -> None:
    """Announce that an attempt waits for a person, and for what."""
    more = {"wanted": wait.wanted, "since": wait.since.isoformat(timespec="seconds")}
    await _send_for_cell(cell, WAITING, wait.about, more)


async def _send(
    experiment: str, name: str, payload: dict[str, Any], cell: Cell | None = None
) -> None:
    """Send an event, and wait until the server has received it. Say so if it does not."""
    resource = {
        "prefect.resource.id": resource_id(experiment),
        "prefect.resource.name": experiment,
        "durabench.event": name,
    }
    related = []
    if cell is not None:
        about = {
            "prefect.resource.id": f"durabench.cell.{attempt_id_of(cell)}",
            "prefect.resource.name": cell.label,
            "prefect.resource.role": "cell",
        }
        related.append(RelatedResource.model_validate(about))
    event = Event(
        event=name, resource=Resource.model_validate(resource), related=related, payload=payload
    )
    try:
        async with get_client() as client:
            event.related += await patiently(related_resources_from_run_context, client)
            content = [event.model_dump(mode="json")]
            await patiently(client.request, "POST", "/events", json=content)
    except (httpx.HTTPError, PrefectHTTPStatusError) as error:
        say(f"the Prefect server did not receive the event {name}: {one_line(error)}")


async def _send_for_cell(cell: Cell, event: str, detail: str, more: Mapping[str, str]) -> None:
    payload = {
        "arm": cell.arm.name,
        "instance_id": cell.instance.instance_id,
        "repeat": cell.repeat,
        "attempt_id": attempt_id_of(cell),
        "detail": detail[:_DETAIL_CHARACTERS],
        **more,
    }
    await _send(cell.partition[0], event, payload, cell)


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
        announced = set[int]()
        if budget:  # announced for exactly this budget, not for a smaller one
            events = await _read_earlier(plan.experiment.name, EventNameFilter(prefix=[BUDGET]))
            announced = {e["percent"] for e in events if e["budget"] == budget.model_dump()}
        return cls(plan, journal, announced)

    async def announce_end(self, cell: Cell, end: End, result: str) -> None:
        """Announce the end of a cell, and any budget percentage it reached."""
        if end == "infrastructure":
            await _send_for_cell(cell, INFRASTRUCTURE, result, {})
        if self._budget:
            await self._announce_budget(self._budget, result)

    async def announce_resume(self) -> None:
        """Announce any budget percentage that earlier runs reached."""
        if self._budget:
            await self._announce_budget(self._budget)

    async def announce_finish(self, counts: Mapping[End, int], page: str) -> None:
        """Announce the end of the run, after its report was written."""
        is_whole = sum(counts.values()) == counts.get("done", 0) + counts.get("not_needed", 0)
        event = FINISHED if is_whole else INCOMPLETE
        await _send(self._experiment, event, {"cells": dict(counts), "page": page})

    async def announce_regression(self, failed: Sequence[FailedGate], page: str) -> None:
        """Announce gates that failed, once over all runs under the name."""
        gates = [str(gate) for gate in failed]
        events = await _read_earlier(self._experiment, EventNameFilter(name=[REGRESSION]))
        if not any(event["failed"] == gates for event in events):
            await _send(self._experiment, REGRESSION, {"failed": gates, "page": page})

    async def _announce_budget(self, budget: Budget, result: str = "") -> None:
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
                payload = {"usd": usd, "calls": calls, "budget": budget.model_dump()}
                await _send(self._experiment, f"{BUDGET}{percent}", {"percent": percent, **payload})


async def _read_earlier(experiment: str, names: EventNameFilter) -> list[dict[str, Any]]:
    """Return the payloads of earlier events of an experiment."""
    chosen = EventFilter(event=names, resource=EventResourceFilter(id=[resource_id(experiment)]))
    try:
        async with get_client() as client:
            page = await client.read_events(chosen, limit=_PAGE)
    except (httpx.HTTPError, PrefectHTTPStatusError) as error:
        say(f"earlier events are unknown ({type(error).__name__}): they may be sent again")
        return []
    return [event.payload for event in page.events]
