"""A service next to a Prefect server that has the deployment of jobs, without a worker."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from prefect import get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows.jobs.job import job
from flows.jobs.pipeline import pipeline
from flows.server.settings import POOL, QUEUES
from tests.flows.jobs.conftest import FILES, NAME
from tests.servers.forge import Forge
from tests.servers.prefect_server import PrefectServer
from tests.servers.service import Service

JOB = {
    "source": "octo/demo",
    "task": "Add, don't subtract.\n\nIt is wrong.",
    "arms": ["mini"],
    "model": {"provider": "simulated", "skill": 1},
    "environment": "host",
}
"""A job that is only submitted."""


@pytest.fixture(scope="module")
def forge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forge]:
    """Yield a forge with one project."""
    with Forge(tmp_path_factory.mktemp("forge")) as forge:
        forge.add(NAME, FILES)
        yield forge


async def deploy(server: PrefectServer, pool_name: str | None = POOL) -> None:
    """Create the deployments of jobs and pipelines, as `prefect deploy` or `serve-flows` does.

    Without a pool, the name of an earlier work queue stays.
    """
    with temporary_settings({PREFECT_API_URL: server.url}):
        async with get_client() as client:
            pool = WorkPoolCreate(name=POOL, type="process")
            await client.create_work_pool(pool, overwrite=True)
        for each in (job, pipeline):
            deployment = await each.ato_deployment(each.name)
            deployment.work_pool_name = pool_name
            if pool_name:
                deployment.work_queue_name = QUEUES[0]
            deployment.entrypoint = f"flows/jobs/{each.name}.py:{each.name}"
            await deployment.aapply()


@pytest.fixture(scope="session")
def running(
    prefect_server: PrefectServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """Yield a service that all tests of this process share."""
    own = prefect_server.apart(tmp_path_factory.mktemp("service"))
    with Service(own, "--rate", "6000") as service:
        yield service


@pytest.fixture(scope="module")
def server(prefect_server: PrefectServer, running: Service) -> Service:
    """Return the service, with the deployments that other suites of its server may have removed."""
    asyncio.run(deploy(prefect_server))
    return running


@pytest.fixture
def submitted(server: Service) -> dict[str, Any]:
    """Return a new job, which no worker takes."""
    status: dict[str, Any] = server.post("/submit", JOB)
    return status
