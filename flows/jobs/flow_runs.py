"""Flow runs of jobs, pipelines and chats: ordered, found, continued and cancelled."""

import asyncio
import re
from collections.abc import Collection
from typing import Any
from uuid import UUID

from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.actions import DeploymentFlowRunCreate
from prefect.client.schemas.filters import (
    DeploymentFilter,
    DeploymentFilterId,
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
from prefect.settings import PREFECT_API_URL
from prefect.states import Cancelling, Scheduled, to_state_create

from agent.errors import InfrastructureError
from agent.journal import Attempt
from flows.jobs import rows, runs
from flows.jobs.request import Request
from flows.server.retry import find_deployment
from flows.storage.job_names import job_of
from flows.storage.lake import Lake, Row

JOB, PIPELINE, CHAT = "job", "pipeline", "chat"
"""Names of the flows and of their deployments."""

_JOB_NAME = "job "
_RUN_NAME = re.compile(r".+ ([0-9a-f]{6,32})")
"""Names that runs give to their flow runs when they start: the pipeline and the run."""
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


def name_job(job_id: str) -> str:
    """Return the name of the flow runs of a job."""
    return f"{_JOB_NAME}{job_id}"


def name_pipeline_run(pipeline: str, run: str) -> str:
    """Return the name of the flow runs of a run."""
    return f"{pipeline} {run}"


def id_of(run: FlowRun) -> str:
    """Return the id of the job or of the run that a flow run is for.

    What was ordered without an id gets it from its flow run when it starts.
    """
    if run.name.startswith(_JOB_NAME):
        return run.name.removeprefix(_JOB_NAME)
    request = run.parameters.get("request")
    if isinstance(request, dict):
        return str(request.get("id") or run.id.hex[:10])
    if match := _RUN_NAME.fullmatch(run.name):
        return match[1]
    return str(run.parameters.get("run") or run.id.hex[:10])


async def order_job(client: PrefectClient, request: Request, key: str | None = None) -> FlowRun:
    """Create a flow run of a job, which a worker takes. Return it.

    Ordering again with the same key creates nothing, and returns the first flow run.

    Raises:
        InfrastructureError: the deployment does not exist.
    """
    parameters = {"request": request.model_dump(mode="json", exclude_none=True)}
    return await _order(client, JOB, parameters, name_job(request.job_id), key)


async def order_definition(client: PrefectClient, definition: Any, key: str | None) -> FlowRun:
    """Order a run of a pipeline that is not deployed on a work pool. Return its flow run."""
    return await _order(client, PIPELINE, {"definition": definition}, None, key)


async def continue_row(client: PrefectClient, lake: Lake, row: Row, key: str) -> FlowRun:
    """Order the continuation of a job, of a run, or of the run that a step belongs to.

    Raises:
        InfrastructureError: the deployment does not exist.
    """
    whole = await asyncio.to_thread(rows.read, lake, row["run"]) if row["run"] else row
    assert whole is not None, "a run is written before its steps"
    if not whole["pipeline"]:
        request = Request.model_validate_json(row["request"])
        return await order_job(client, request.model_copy(update={"id": row["job_id"]}), key)
    definition = runs.pipeline_of(whole)
    content = definition.model_dump(mode="json", exclude_none=True)
    parameters = {"definition": content, "run": whole["job_id"]}
    name = name_pipeline_run(definition.name, whole["job_id"])
    return await _order(client, PIPELINE, parameters, name, key)


async def continue_attempt(
    client: PrefectClient, attempt: Attempt, message: int, lake: Lake
) -> FlowRun | None:
    """Order the flow run that continues an attempt after a message: its job, its run, or a chat.

    Return None without the deployment of chats. The same message again orders nothing new.

    Raises:
        InfrastructureError: the deployment of jobs or pipelines does not exist.
    """
    key = f"{attempt.attempt_id}-{message}"
    job_id = job_of(attempt.experiment)
    row = await asyncio.to_thread(rows.read, lake, job_id) if job_id else None
    if row is not None and row["state"] != "chat":
        return await continue_row(client, lake, row, key)
    if await find_deployment(client, f"{CHAT}/{CHAT}") is None:
        return None
    name = f"chat {attempt.attempt_id[:12]}"
    return await _order(client, CHAT, {"attempt": attempt.attempt_id}, name, key)


async def wake(attempt: Attempt, message: int, lake: Lake) -> UUID | None:
    """Have a worker continue an attempt after a message. Return the flow run.

    Return None if no server is configured, or it lacks the deployment.
    """
    if not PREFECT_API_URL.value():
        return None
    async with get_client() as client:
        try:
            run = await continue_attempt(client, attempt, message, lake)
        except InfrastructureError:
            return None
    return run.id if run else None


async def read_failure(flow_run: UUID) -> str | None:
    """Return why a flow run did not end as it should have; None if nothing is wrong so far."""
    async with get_client() as client:
        state = (await client.read_flow_run(flow_run)).state
    if state is None or not state.is_final() or state.is_completed():
        return None
    return f"{state.name}: {state.message}"


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
    wanted: FlowRunFilter | None = None,
    *flows: str,
    deployment: UUID | None = None,
) -> dict[str, FlowRun]:
    """Return the latest flow run of each job or run, as many as one answer holds, by its id."""
    within = DeploymentFilter(id=DeploymentFilterId(any_=[deployment])) if deployment else None
    latest: dict[str, FlowRun] = {}
    for run in await client.read_flow_runs(
        flow_filter=FlowFilter(name=FlowFilterName(any_=list(flows or (JOB, PIPELINE)))),
        flow_run_filter=wanted,
        deployment_filter=within,
        sort=FlowRunSort.EXPECTED_START_TIME_DESC,
        limit=_PAGE,
    ):
        latest.setdefault(id_of(run), run)
    return latest


async def read_named(client: PrefectClient, names: Collection[str]) -> dict[str, FlowRun]:
    """Return the latest flow runs with these names, by the id of their job or run."""
    wanted = FlowRunFilter(name=FlowRunFilterName(any_=list(names)))
    return await read(client, wanted) if names else {}


async def read_by_id(client: PrefectClient, flow_runs: Collection[UUID]) -> dict[str, FlowRun]:
    """Return the flow runs with these ids, by the id of their job or run."""
    wanted = FlowRunFilter(id=FlowRunFilterId(any_=list(flow_runs)))
    return await read(client, wanted) if flow_runs else {}


async def _order(
    client: PrefectClient, flow: str, parameters: dict[str, Any], name: str | None, key: str | None
) -> FlowRun:
    deployment = await find_deployment(client, f"{flow}/{flow}")
    if deployment is None:
        raise InfrastructureError(
            f"the Prefect server has no deployment {flow}/{flow}: create it with `prefect deploy "
            "--all` in a clone, or run `durabench serve-flows`"
        )
    return await create(client, deployment.id, parameters, name, key)


async def create(
    client: PrefectClient,
    deployment: UUID,
    parameters: dict[str, Any],
    name: str | None,
    key: str | None,
) -> FlowRun:
    """Create a flow run with parameters that were parsed here, or return the first one of a key.

    The server does not check them again: that takes 0.4 s of its processor time in a transaction,
    in which it answers no other request.
    """
    wanted = DeploymentFlowRunCreate(
        state=to_state_create(Scheduled()),
        parameters=parameters,
        name=name,
        idempotency_key=key,
        enforce_parameter_schema=False,
    )
    answer = await client.request(
        "POST",
        "/deployments/{id}/create_flow_run",
        path_params={"id": deployment},
        json=wanted.model_dump(mode="json", exclude_unset=True),
    )
    return FlowRun.model_validate(answer.json())
