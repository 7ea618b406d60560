"""Pipelines on a Prefect server: a definition is a deployment, and a run is a flow run.

A deployed definition is a copy of the deployment `pipeline/pipeline` with its own name and
parameters, so that it runs on the same work pool. Without a pool, as of `serve-flows`, it only
holds the definition, and `pipeline/pipeline` itself runs it.
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
from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.responses import DeploymentResponse
from prefect.client.schemas.schedules import CronSchedule

from agent.errors import InfrastructureError
from flows.display.errors import UsageError
from flows.jobs.definition import Pipeline, parse
from flows.jobs.flow_runs import PIPELINE, create, order_definition
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
    pool: str | None

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
        UsageError: no server is configured, or nothing would keep the schedule.
        InfrastructureError: the server does not answer, or has no flows.
    """
    await reach_server("pipeline deploy")
    if pipeline.name == PIPELINE:
        raise UsageError(f"the name {PIPELINE} is taken: name the pipeline otherwise")
    async with get_client() as client:
        # Definitions are copies of this deployment.
        model = await find_deployment(client, f"{PIPELINE}/{PIPELINE}")
        if model is None:
            raise InfrastructureError(
                f"the server has no deployment {PIPELINE}/{PIPELINE}: run `durabench serve-flows`, "
                "or `durabench setup` and `prefect deploy --all` in a clone"
            )
        timing = pipeline.schedule
        if timing and not model.work_pool_name:
            raise UsageError(
                "a pipeline with a schedule needs a work pool: run `durabench setup` and `prefect "
                "deploy --all` in a clone, and a worker in place of `durabench serve-flows`"
            )
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
            # `serve-flows` clears the pool of a deployment, and leaves the name of the queue.
            work_queue_name=model.work_queue_name if model.work_pool_name else None,
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
    async with _find(name, "run") as (client, pipeline):
        return (await order_run(client, pipeline)).id


async def order_run(client: PrefectClient, pipeline: Deployed, key: str | None = None) -> FlowRun:
    """Order a run of a definition. Return its flow run. The same key again orders nothing new.

    Raises:
        InfrastructureError: the server has no flows.
    """
    if pipeline.pool is None:
        return await order_definition(client, pipeline.definition, key)
    return await create(client, pipeline.id, {}, None, key)


async def delete(name: str) -> None:
    """Delete a deployed definition.

    Raises:
        UsageError, InfrastructureError: as for `order`.
    """
    async with _find(name, "delete") as (client, pipeline):
        await client.delete_deployment(pipeline.id)


async def read_deployed() -> list[Deployed]:
    """Return the deployed definitions of the configured server, by name."""
    async with get_client() as client:
        deployments = await client.read_deployments(
            flow_filter=FlowFilter(name=FlowFilterName(any_=[PIPELINE])),
            deployment_filter=DeploymentFilter(tags=DeploymentFilterTags(all_=[TAG])),
        )
    return [_read(each) for each in sorted(deployments, key=lambda deployment: deployment.name)]


def _read(deployment: DeploymentResponse) -> Deployed:
    definition, pool = deployment.parameters["definition"], deployment.work_pool_name
    return Deployed(deployment.id, deployment.name, definition, pool)


@asynccontextmanager
async def _find(name: str, command: str) -> AsyncIterator[tuple[PrefectClient, Deployed]]:
    await reach_server(f"pipeline {command}")
    async with get_client() as client:
        deployment = await find_deployment(client, f"{PIPELINE}/{name}")
        if deployment is None or TAG not in deployment.tags:
            raise UsageError(
                f"there is no file, deployed pipeline or run {name!r}: see `durabench pipeline "
                "runs`, or deploy it with `durabench pipeline deploy FILE`"
            )
        yield client, _read(deployment)
