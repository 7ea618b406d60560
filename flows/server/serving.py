"""`durabench serve-flows`: run the deployments of prefect.yaml in one program, without a pool.

Prefect's own `serve` polls the server and starts a process for each flow run.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml
from prefect import Flow, aserve
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import ConcurrencyLimitConfig
from prefect.deployments.runner import RunnerDeployment
from prefect.schedules import Cron
from prefect.types.entrypoint import EntrypointType

import flows
from agent.errors import InfrastructureError
from flows.display.errors import UsageError
from flows.display.terminal import say
from flows.server.retry import find_deployment
from flows.server.setup import SetupRequest, reach_server, set_up

FILE = "prefect.yaml"


@dataclass(frozen=True)
class ServedDeployment:
    """A deployment of prefect.yaml and its flow."""

    flow: Flow[..., Any]
    content: dict[str, Any]

    @property
    def name(self) -> str:
        """The deployment's name in Prefect, such as `benchmark/smoke`."""
        return f"{self.flow.name}/{self.content['name']}"


async def serve(limit: int, *, replace: bool) -> None:
    """Serve every deployment of prefect.yaml until a signal ends this process.

    Args:
        limit: maximum flow runs at the same time.
        replace: take deployments over from the work pool that has them.

    Raises:
        UsageError: no server is configured, or a work pool has the deployments.
        InfrastructureError: prefect.yaml is missing, or the server does not answer.
    """
    await reach_server("serve-flows")
    declared = read(Path(flows.__file__).parents[1] / FILE)
    if not replace:
        await _refuse_pools(declared)
    for line in await set_up(SetupRequest()):
        say(line)
    for served in declared:
        os.environ.update(served.content["work_pool"]["job_variables"].get("env", {}))
    say(f"serving {', '.join(served.name for served in declared)}; stop with Ctrl-C")
    await aserve(*map(_deploy, declared), limit=limit, print_starting_message=False)


def read(file: Path) -> list[ServedDeployment]:
    """Return the deployments of a prefect.yaml, with their flows.

    Raises:
        InfrastructureError: the file is missing, as in an installation without the repository.
    """
    try:
        deployments = yaml.safe_load(file.read_text())["deployments"]
    except OSError as error:
        raise InfrastructureError(
            f"cannot read {file}: {error.strerror}; serve-flows needs a clone of the repository"
        ) from None
    served = []
    for content in deployments:
        path, _, name = content["entrypoint"].partition(":")
        module = import_module(path.removesuffix(".py").replace("/", "."))
        served.append(ServedDeployment(getattr(module, name), content))
    return served


def _deploy(served: ServedDeployment) -> RunnerDeployment:
    content = served.content
    # The entrypoint is a module, so that this may run in any folder.
    deployment = RunnerDeployment.from_flow(
        served.flow,
        name=content["name"],
        description=content["description"],
        tags=content["tags"],
        parameters=content.get("parameters"),
        enforce_parameter_schema=content["enforce_parameter_schema"],
        paused=False,  # an earlier program paused it when it ended
        schedules=[Cron(cron["cron"], cron["timezone"]) for cron in content.get("schedules", [])],
        concurrency_limit=ConcurrencyLimitConfig(**content["concurrency_limit"]),
        entrypoint_type=EntrypointType.MODULE_PATH,
    )
    deployment.work_pool_name = None  # an unset field would leave the pool of `prefect deploy`
    return deployment


async def _refuse_pools(declared: Sequence[ServedDeployment]) -> None:
    async with get_client() as client:
        for served in declared:
            deployment = await find_deployment(client, served.name)
            if pool := deployment and deployment.work_pool_name:
                raise UsageError(
                    f"deployment {served.name} belongs to work pool {pool}: start a worker "
                    f"(`prefect worker start --pool {pool}`), or serve it here with --replace"
                )
