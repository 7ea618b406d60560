"""Pipelines on a Prefect server: a definition is a deployment, and a run is a flow run.

A deployed definition is a copy of the deployment `pipeline/pipeline` with its own name and
parameters, so that it runs on the same work pool.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from uuid import UUID

from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.actions import DeploymentScheduleCreate
from prefect.client.schemas.filters import (
    DeploymentFilter,
    DeploymentFilterTags,
    FlowFilter,
    FlowFilterName,
)
from prefect.client.schemas.schedules import CronSchedule

from flows.display.errors import UsageError
from flows.jobs.definition import Pipeline, parse
from flows.jobs.flow_runs import PIPELINE
from flows.server.retry import find_deployment
from flows.server.settings import JOB_TAG
from flows.server.setup import reach_server

TAG = "durabench-pipeline"
"""The tag of deployed definitions."""


@dataclass(frozen=True)
class Deployed:
    """A definition on the server."""

    id: UUID
    name: str
    definition: Any

    @cached_property
    def pipeline(self) -> Pipeline:
        """Return the parsed definition.

        Raises:
            UsageError: another version deployed it, and this one cannot read it.
        """
        return parse(self.definition, f"pipeline {self.name}")

    @property
    def problem(self) -> str | None:
        """Return why this version cannot read the definition, or None."""
        try:
            _ = self.pipeline
        except UsageError as error:
            return str(error)
        return None


async def deploy(pipeline: Pipeline) -> UUID:
    """Create the deployment of a definition, or replace it. Return its id.

    Raises:
        UsageError: no server is configured, or the flows are not deployed on a work pool.
        InfrastructureError: the server does not answer.
    """
    await reach_server("pipeline deploy")
    if pipeline.name == PIPELINE:
        raise UsageError(f"the name {PIPELINE} is taken: name the pipeline otherwise")
    async with get_client() as client:
        # Definitions are copies of this deployment.
        model = await find_deployment(client, f"{PIPELINE}/{PIPELINE}")
        if model is None or not model.work_pool_name:
            raise UsageError(
                f"the server has no deployment {PIPELINE}/{PIPELINE} on a work pool: run "
                "`durabench setup` and `prefect deploy --all` in a clone first"
            )
        timing = pipeline.schedule
        schedules = [CronSchedule(cron=timing.cron, timezone=timing.timezone)] if timing else []
        return await client.create_deployment(
            flow_id=model.flow_id,
            name=pipeline.name,
            description=pipeline.title or f"Pipeline {pipeline.name} on {pipeline.source}.",
            tags=[JOB_TAG, TAG],
            parameters={**model.parameters, "definition": pipeline.model_dump(mode="json")},
            schedules=[
                DeploymentScheduleCreate(schedule=timing, active=True) for timing in schedules
            ],
            work_pool_name=model.work_pool_name,
            work_queue_name=model.work_queue_name,
            path=model.path,
            entrypoint=model.entrypoint,
            pull_steps=model.pull_steps,
            job_variables=model.job_variables,
            parameter_openapi_schema=model.parameter_openapi_schema,
            enforce_parameter_schema=True,
        )


async def order(name: str) -> UUID:
    """Order a run of a deployed definition. Return the id of its flow run.

    Raises:
        UsageError: no server is configured, or it has no such pipeline.
        InfrastructureError: the server does not answer.
    """
    async with _find(name, "run") as (client, deployment):
        return (await client.create_flow_run_from_deployment(deployment)).id


async def delete(name: str) -> None:
    """Delete a deployed definition.

    Raises:
        UsageError, InfrastructureError: as for `order`.
    """
    async with _find(name, "delete") as (client, deployment):
        await client.delete_deployment(deployment)


async def read_deployed() -> list[Deployed]:
    """Return the deployed definitions of the configured server, by name."""
    async with get_client() as client:
        deployments = await client.read_deployments(
            flow_filter=FlowFilter(name=FlowFilterName(any_=[PIPELINE])),
            deployment_filter=DeploymentFilter(tags=DeploymentFilterTags(all_=[TAG])),
        )
    return [
        Deployed(deployment.id, deployment.name, deployment.parameters["definition"])
        for deployment in sorted(deployments, key=lambda deployment: deployment.name)
    ]


@asynccontextmanager
async def _find(name: str, command: str) -> AsyncIterator[tuple[PrefectClient, UUID]]:
    await reach_server(f"pipeline {command}")
    async with get_client() as client:
        deployment = await find_deployment(client, f"{PIPELINE}/{name}")
        if deployment is None or TAG not in deployment.tags:
            raise UsageError(
                f"there is no file, deployed pipeline or run {name!r}: see `durabench pipeline "
                "runs`, or deploy it with `durabench pipeline deploy FILE`"
            )
        yield client, deployment.id
