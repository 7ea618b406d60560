"""Where cells run: the environment, decided once for a run, and a workspace for each cell."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from agent.errors import WorkspaceError
from agent.workspaces import (
    DockerWorkspace,
    HostWorkspace,
    container,
    docker_available,
    ownership,
)
from agent.workspaces.protocol import Environment, Workspace
from eval import upstream
from eval.types import Instance
from flows.errors import UsageError
from flows.experiments.cells import Place

CACHE_VARIABLE = "DURABENCH_CACHE"

WORKSPACE_LABEL = "durabench.workspace"
"""On the container of an attempt: which of its workspaces it holds."""


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


@dataclass(frozen=True)
class AttemptWorkspaces:
    """The workspaces of one attempt, as its session opens them."""

    instance: Instance
    place: Place
    attempt_id: str
    origin_id: str
    """The attempt that this one was forked from first: its paths stand in the conversation."""

    @property
    def root(self) -> str:
        """Absolute path of the repository in the main workspace, as commands see it."""
        if self.place.environment == "docker":
            return container.ROOT
        return HostWorkspace.root_of(_folder(self.origin_id, ""))

    @asynccontextmanager
    async def open(self, name: str, *, image: str, goes_on: bool) -> AsyncIterator[Workspace]:
        """The workspace of that name at the base commit, from a snapshot, or taken over; gone
        at the end.

        Raises:
            WorkspaceError: it cannot be had.
        """
        labels = {
            **_labels(self.attempt_id, self.instance),
            WORKSPACE_LABEL: f"{self.attempt_id}/{name}",
        }
        folder = _folder(self.origin_id, name)
        adopt = f"{WORKSPACE_LABEL}={labels[WORKSPACE_LABEL]}" if goes_on else None
        image = image or self.instance.image
        opened = await _open(self.instance, self.place, labels, folder, adopt, image)
        try:
            yield opened
        finally:
            await opened.close()


@asynccontextmanager
async def workspace(instance: Instance, place: Place, purpose: str) -> AsyncIterator[Workspace]:
    """A workspace at the base commit of an instance, for a grading; gone at the end.

    Raises:
        WorkspaceError: it cannot be had.
    """
    opened = await _open(instance, place, _labels(purpose, instance), purpose, None, instance.image)
    try:
        yield opened
    finally:
        await opened.close()


def _labels(purpose: str, instance: Instance) -> dict[str, str]:
    return {ownership.ATTEMPT: purpose, "durabench.instance": instance.instance_id}


def _folder(attempt_id: str, name: str) -> str:
    """Name of a host workspace: that of the attempt, and for a branch which one."""
    return "-".join([attempt_id, *name.split("/")]) if name else attempt_id


async def _open(
    instance: Instance,
    place: Place,
    labels: dict[str, str],
    folder: str,
    adopt: str | None,
    image: str,
) -> Workspace:
    """`adopt`: the label of a container that a dead process left and that may be taken over."""
    if place.problem:
        raise WorkspaceError(place.problem, retryable=False)
    if place.environment == "docker":
        return await DockerWorkspace.open(
            image=image,
            base_commit=instance.base_commit,
            labels=labels,
            network=place.network,
            adopt=adopt,
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
