"""Deployments of the flows on a Prefect server."""

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.responses import DeploymentResponse
from prefect.exceptions import ObjectNotFound


async def find_deployment(client: PrefectClient, name: str) -> DeploymentResponse | None:
    """Return the deployment of a name such as `job/job`, or None if the server has none."""
    try:
        return await client.read_deployment_by_name(name)
    except ObjectNotFound:
        return None
