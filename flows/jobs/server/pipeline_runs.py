"""The flow runs of pipelines: ordered, continued and found with Prefect's API."""

import re
from collections.abc import Collection
from typing import Any
from uuid import UUID

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterId
from prefect.client.schemas.objects import FlowRun

from agent.errors import InfrastructureError
from flows.jobs.pipelines.definition import Pipeline
from flows.jobs.server import job_runs
from flows.jobs.server.pipelines import FLOW
from flows.server.retry import find_deployment

_NAME = re.compile(r".+ ([0-9a-f]{6,32})")
"""Names that runs give to their flow runs when they begin: the pipeline and the run."""


def name_of(pipeline: str, run: str) -> str:
    """Return the name of the flow runs of a run."""
    return f"{pipeline} {run}"


def run_of(run: FlowRun) -> str:
    """Return the id of the run that a flow run is for.

    A new run gets it from its flow run.
    """
    if named := _NAME.fullmatch(run.name):
        return named[1]
    return str(run.parameters.get("run") or run.id.hex[:10])


async def order(client: PrefectClient, deployment: UUID, key: str | None) -> str:
    """Order a run of a deployed pipeline. Return its id. The same key again orders nothing new."""
    run = await client.create_flow_run_from_deployment(deployment, idempotency_key=key)
    return run_of(run)


async def resume(
    client: PrefectClient, definition: Pipeline, run: str, key: str, **approved: Any
) -> FlowRun:
    """Order the continuation of a run. Return its flow run.

    `approved` are the flow's parameters about approval.

    Raises:
        InfrastructureError: the flow is not deployed.
    """
    found = await find_deployment(client, f"{FLOW}/{FLOW}")
    if found is None:
        raise InfrastructureError(
            f"the Prefect server has no deployment {FLOW}/{FLOW}: create it with `prefect deploy "
            "--all` in a clone"
        )
    content = definition.model_dump(mode="json", exclude_none=True)
    return await client.create_flow_run_from_deployment(
        found.id,
        parameters={"definition": content, "run": run, **approved},
        name=name_of(definition.name, run),
        idempotency_key=key,
    )


async def unfinished(client: PrefectClient) -> dict[str, FlowRun]:
    """Return the latest flow runs that are open or left no result, by the run's id."""
    return job_runs.first_of_each(await job_runs.read(client, FLOW, job_runs.UNFINISHED), run_of)


async def of_deployment(client: PrefectClient, deployment: UUID) -> dict[str, FlowRun]:
    """Return the latest flow runs of a deployed pipeline, by the run's id."""
    only = DeploymentFilter(id=DeploymentFilterId(any_=[deployment]))
    return job_runs.first_of_each(await job_runs.read(client, FLOW, None, only), run_of)


async def latest(client: PrefectClient, names: Collection[str]) -> dict[str, FlowRun]:
    """Return the latest flow runs with these names, by the run's id."""
    if not names:
        return {}
    return job_runs.first_of_each(
        await job_runs.read(client, FLOW, job_runs.with_names(names)), run_of
    )


async def with_ids(client: PrefectClient, flow_runs: Collection[UUID]) -> dict[str, FlowRun]:
    """Return the flow runs with these ids, by the run's id."""
    if not flow_runs:
        return {}
    return job_runs.first_of_each(
        await job_runs.read(client, FLOW, job_runs.with_ids(flow_runs)), run_of
    )
