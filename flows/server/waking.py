"""Start an attempt again on a worker, after a message to it."""

from uuid import UUID

from prefect.client.orchestration import get_client
from prefect.settings import PREFECT_API_URL

from flows.server.deployments import find_deployment

DEPLOYMENT = "chat/chat"


async def woken(attempt_id: str, message: int) -> UUID | None:
    """Have a worker carry on an attempt after a message. Return the flow run.

    Return None if no server is configured, or it lacks the deployment.
    """
    if not PREFECT_API_URL.value():
        return None
    async with get_client() as client:
        found = await find_deployment(client, DEPLOYMENT)
        if found is None:
            return None
        run = await client.create_flow_run_from_deployment(
            found.id,
            parameters={"attempt": attempt_id},
            idempotency_key=f"{attempt_id}-{message}",
            name=f"chat {attempt_id[:12]}",
        )
    return run.id


async def failure(flow_run: UUID) -> str | None:
    """Return why a flow run did not end as it should have; None if nothing is wrong so far."""
    async with get_client() as client:
        state = (await client.read_flow_run(flow_run)).state
    if state is None or not state.is_final() or state.is_completed():
        return None
    return f"{state.name}: {state.message}"
