"""Where cells run: the environment, decided once for a run, and a workspace for each cell."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from agent.errors import WorkspaceError
from agent.workspaces import DockerWorkspace, HostWorkspace, docker_available, ownership
from agent.workspaces.protocol import Checkpoint, Environment, Workspace
from eval import images, upstream
from eval.types import Instance
from flows.cells import Place
from flows.errors import UsageError

CACHE_VARIABLE = "DURABENCH_CACHE"


def cache_folder() -> Path:
    """Where bundled repositories are unpacked: `DURABENCH_CACHE` or the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get(CACHE_VARIABLE) or Path(base) / "durabench")


async def decide(wanted: str, instances: list[Instance]) -> Environment:
    """The environment of a run: what was asked for, or Docker where a daemon answers.

    Raises:
        UsageError: Docker was asked for, or the instances need it, and it is not there.
    """
    if wanted == "host":
        return _host_or_raise(instances, "environment: host was asked for")
    problem = await docker_available()
    if problem is None:
        return "docker"
    if wanted == "docker":
        raise UsageError(f"environment: docker was asked for, but {problem}")
    return _host_or_raise(instances, problem)


def find(
    instances: list[Instance], dataset: str, environment: Environment, *, network: bool
) -> dict[str, Place]:
    """The place of each instance; one listing of the daemon's images serves all of them."""
    if environment == "host":
        return {instance.instance_id: Place("host") for instance in instances}
    return {
        status.instance_id: Place("docker", status.image_id, network)
        for status in images.check(instances, dataset)
    }


@asynccontextmanager
async def workspace(
    instance: Instance,
    place: Place,
    purpose: str,
    checkpoint: Checkpoint | None = None,
    *,
    folder: str | None = None,
) -> AsyncIterator[Workspace]:
    """A workspace at the base commit of an instance, or at a checkpoint; gone at the end.

    `purpose` names the attempt or the grading. The same `folder`, or purpose where there is
    none, gets the same paths on the host, so that a conversation that names them can go on.

    Raises:
        WorkspaceError: it cannot be had.
    """
    goes_on = checkpoint is not None
    opened = await _open(instance, place, purpose, folder or purpose, goes_on=goes_on)
    try:
        if checkpoint is not None:
            await opened.restore(checkpoint)
        yield opened
    finally:
        await opened.close()


async def _open(
    instance: Instance, place: Place, purpose: str, folder: str, *, goes_on: bool
) -> Workspace:
    """`goes_on`: a container that a dead process left may be taken over, and is then reset."""
    labels = {ownership.ATTEMPT: purpose, "durabench.instance": instance.instance_id}
    if place.environment == "docker":
        return await DockerWorkspace.open(
            image=instance.image,
            base_commit=instance.base_commit,
            labels=labels,
            network=place.network,
            adopt=f"{ownership.ATTEMPT}={purpose}" if goes_on else None,
        )

    def prepare(path: Path) -> None:
        try:
            upstream.checkout(instance.repo, instance.base_commit, path, cache_folder())
        except upstream.UpstreamError as error:
            raise WorkspaceError(str(error), retryable=False) from error

    return await HostWorkspace.open(
        prepare=prepare, base_commit=instance.base_commit, labels=labels, name=folder
    )


def _host_or_raise(instances: list[Instance], why: str) -> Environment:
    foreign = [i.instance_id for i in instances if upstream.series(i.repo) is None]
    if foreign:
        raise UsageError(
            f"{foreign[0]} and {len(foreign) - 1} others have no repository here and need Docker "
            f"({why}); start Docker, or use `dataset: bundled`"
            if len(foreign) > 1
            else f"{foreign[0]} has no repository here and needs Docker ({why}); start Docker, "
            "or use `dataset: bundled`"
        )
    return "host"
