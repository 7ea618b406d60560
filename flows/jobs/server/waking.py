"""Start an attempt again on a worker, after a message to it."""

import asyncio
from uuid import UUID

from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.objects import FlowRun
from prefect.settings import PREFECT_API_URL

from agent.errors import InfrastructureError
from agent.journal import Attempt
from flows.jobs import rows
from flows.jobs.pipelines import runs
from flows.jobs.request import Request
from flows.jobs.server import job_runs, pipeline_runs
from flows.server.retry import find_deployment
from flows.storage.job_names import job_of
from flows.storage.lake import Lake

DEPLOYMENT = "chat/chat"


async def woken(attempt: Attempt, message: int, lake: Lake) -> UUID | None:
    """Have a worker carry on an attempt after a message. Return the flow run.

    Return None if no server is configured, or it lacks the deployment.
    """
    if not PREFECT_API_URL.value():
        return None
    async with get_client() as client:
        try:
            run = await carried_on(client, attempt, message, lake)
        except InfrastructureError:
            return None
    return run.id if run else None


async def carried_on(
    client: PrefectClient, attempt: Attempt, message: int, lake: Lake
) -> FlowRun | None:
    """Order what carries on an attempt after a message: its job, its run, or a chat.

    Return None without the deployment. The same message again orders nothing new.

    Raises:
        InfrastructureError: the deployment of jobs or pipelines does not exist.
    """
    key = f"{attempt.attempt_id}-{message}"
    job_id = job_of(attempt.experiment)
    row = await asyncio.to_thread(rows.read, lake, job_id) if job_id else None
    if row is not None and row["run"]:
        whole = await asyncio.to_thread(rows.read, lake, row["run"])
        assert whole is not None, "a run is written before its steps"
        definition = runs.pipeline_of(whole)
        return await pipeline_runs.resume(client, definition, whole["job_id"], key)
    if row is not None and row["state"] != "chat":
        request = Request.model_validate_json(row["request"]).model_copy(update={"id": job_id})
        return await job_runs.order(client, request, key=key)
    found = await find_deployment(client, DEPLOYMENT)
    if found is None:
        return None
    return await client.create_flow_run_from_deployment(
        found.id,
        parameters={"attempt": attempt.attempt_id},
        idempotency_key=key,
        name=f"chat {attempt.attempt_id[:12]}",
    )


async def failure(flow_run: UUID) -> str | None:
    """Return why a flow run did not end as it should have; None if nothing is wrong so far."""
    async with get_client() as client:
        state = (await client.read_flow_run(flow_run)).state
    if state is None or not state.is_final() or state.is_completed():
        return None
    return f"{state.name}: {state.message}"
