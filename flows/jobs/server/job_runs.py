"""The flow runs of jobs: ordered, found and cancelled with Prefect's API."""

from collections.abc import Callable, Collection
from typing import Any
from uuid import UUID

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.filters import (
    DeploymentFilter,
    FlowFilter,
    FlowFilterName,
    FlowRunFilter,
    FlowRunFilterId,
    FlowRunFilterName,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.client.schemas.sorting import FlowRunSort
from prefect.exceptions import ObjectNotFound
from prefect.states import Cancelling

from agent.errors import InfrastructureError
from flows.jobs.request import Request
from flows.server.retry import find_deployment

FLOW = "job"
DEPLOYMENT = "job/job"

_NAME = "job "
_PAGE = 200
"""Flow runs in one answer of Prefect's API, its maximum."""

OPEN = (
    StateType.SCHEDULED,
    StateType.PENDING,
    StateType.RUNNING,
    StateType.PAUSED,
    StateType.CANCELLING,
)
"""Types of states that are not final."""

UNFINISHED = FlowRunFilter(
    state=FlowRunFilterState(
        type=FlowRunFilterStateType(
            any_=[*OPEN, StateType.FAILED, StateType.CRASHED, StateType.CANCELLED]
        )
    )
)
"""Flow runs that are open, or ended without a result."""


def name_of(job_id: str) -> str:
    """Return the name of the flow runs of a job."""
    return f"{_NAME}{job_id}"


def job_of(run: FlowRun) -> str:
    """Return the id of a flow run's job.

    A run that was ordered without an id gets it from its own when it begins.
    """
    if run.name.startswith(_NAME):
        return run.name.removeprefix(_NAME)
    asked = run.parameters.get("request")
    given = asked.get("id") if isinstance(asked, dict) else None
    return str(given or run.id.hex[:10])


async def order(
    client: PrefectClient, request: Request, *, approved: bool = False, key: str | None = None
) -> FlowRun:
    """Create a flow run of a job, which a worker takes. Return it.

    Ordering again with the same key creates nothing, and returns the first flow run.

    Raises:
        InfrastructureError: the deployment does not exist.
    """
    found = await find_deployment(client, DEPLOYMENT)
    if found is None:
        raise InfrastructureError(
            f"the Prefect server has no deployment {DEPLOYMENT}: create it with `prefect deploy "
            "--all` in a clone, or run `durabench serve-flows`"
        )
    asked: dict[str, Any] = {"request": request.model_dump(mode="json", exclude_none=True)}
    return await client.create_flow_run_from_deployment(
        found.id,
        parameters=asked | ({"approved": True} if approved else {}),
        name=name_of(request.job_id),
        idempotency_key=key,
    )


async def latest(client: PrefectClient, job_ids: Collection[str]) -> dict[str, FlowRun]:
    """Return the latest flow run of each of these jobs that has one, by the job's id."""
    if not job_ids:
        return {}
    return first_of_each(
        await read(client, FLOW, with_names([name_of(each) for each in job_ids])), job_of
    )


async def unfinished(client: PrefectClient) -> dict[str, FlowRun]:
    """Return the latest flow runs that are open or left no result, by the job's id."""
    return first_of_each(await read(client, FLOW, UNFINISHED), job_of)


async def found(client: PrefectClient, run_id: UUID) -> FlowRun | None:
    """Return the flow run of a job with that id, or None."""
    runs = await read(client, FLOW, with_ids([run_id]))
    return runs[0] if runs else None


def with_names(names: Collection[str]) -> FlowRunFilter:
    """Return a filter for flow runs by their names."""
    return FlowRunFilter(name=FlowRunFilterName(any_=list(names)))


def with_ids(flow_runs: Collection[UUID]) -> FlowRunFilter:
    """Return a filter for flow runs by their ids."""
    return FlowRunFilter(id=FlowRunFilterId(any_=list(flow_runs)))


async def cancel(client: PrefectClient, run_id: UUID) -> bool:
    """Ask a flow run to stop. Return False if it has ended or the server does not have it."""
    try:
        run = await client.read_flow_run(run_id)
        if run.state is None or run.state.is_final():
            return False
        await client.set_flow_run_state(run.id, Cancelling())
    except ObjectNotFound:
        return False
    return True


async def read(
    client: PrefectClient,
    flow: str,
    wanted: FlowRunFilter | None,
    deployments: DeploymentFilter | None = None,
) -> list[FlowRun]:
    """Return the latest flow runs of a flow that pass the filters, as many as one answer holds."""
    return await client.read_flow_runs(
        flow_filter=FlowFilter(name=FlowFilterName(any_=[flow])),
        flow_run_filter=wanted,
        deployment_filter=deployments,
        sort=FlowRunSort.EXPECTED_START_TIME_DESC,
        limit=_PAGE,
    )


def first_of_each(runs: list[FlowRun], id_of: Callable[[FlowRun], str]) -> dict[str, FlowRun]:
    """Return the first of these flow runs for each id."""
    found: dict[str, FlowRun] = {}
    for run in runs:
        found.setdefault(id_of(run), run)
    return found
