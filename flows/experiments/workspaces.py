"""The environment, decided once per run, and the workspace of each cell."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from agent.errors import WorkspaceError
from agent.journal import RecordedStep
from agent.workspaces import (
    DockerWorkspace,
    Environment,
    HostWorkspace,
    Mount,
    Workspace,
    docker_available,
    ownership,
)
from eval import repositories, upstream
from eval.base_image import BASE_IMAGE, connect, ensure_base
from eval.errors import RepositoryError
from eval.types import Instance
from flows.display.errors import UsageError
from flows.experiments.cells import Place
from flows.storage.images import cache_folder
from reports.format import plural

WORKSPACE_LABEL = "durabench.workspace"
"""Label on an attempt's container that names the workspace in it."""


async def decide(wanted: str, instances: list[Instance]) -> Environment:
    """Return the environment of a run: the requested one, or Docker if a daemon answers.

    Raises:
        UsageError: Docker is requested or needed by the instances, but not available.
    """
    if wanted == "host":
        cache, why = cache_folder(), "environment: host was asked for"
        need_docker = [i for i in instances if not repositories.is_here(i, cache)]
    else:
        problem = await docker_available()
        if problem is None:
            return "docker"
        if wanted == "docker":
            raise UsageError(f"environment: docker was asked for, but {problem}")
        # Code of other repositories runs on the host only on request.
        why = problem
        need_docker = [i for i in instances if upstream.series(i.repo) is None]
    if not need_docker:
        return "host"
    first, others = need_docker[0].instance_id, len(need_docker) - 1
    need = f"{first} has no repository here and needs Docker"
    if others:
        need = f"{first} and {plural(others, 'other')} have no repository here and need Docker"
    raise UsageError(f"{need} ({why}); start Docker, or use `dataset: bundled`")


@dataclass(frozen=True)
class AttemptWorkspaces:
    """Opens the workspaces of one attempt for its session."""

    instance: Instance
    place: Place
    attempt_id: str
    journal_id: str
    """Keeps the workspaces of equal cells in different lakes apart: their attempt ids are equal."""
    origin_id: str
    """The original attempt of a chain of forks; its paths appear in the conversation."""
    mounts: tuple[Mount, ...] = ()
    """Folders of this machine that containers can read. Commands on the host read everything."""
    removed: set[str] = field(default_factory=set, compare=False)
    """Receives the refs and files that were removed from git at the opening of a workspace."""
    names_journal: bool = True
    """False for an attempt of release 0.1, whose folders on the host had its id alone."""

    @property
    def root(self) -> str:
        """Absolute path of the repository in the main workspace, as commands see it."""
        if self.place.environment == "docker":
            return self.instance.root
        return HostWorkspace.root_of(self._folder(""))

    @property
    def network(self) -> bool:
        """True if commands can reach other machines. Nothing isolates a host workspace."""
        return self.place.has_network(self.instance, "work") or self.environment == "host"

    @property
    def environment(self) -> Environment:
        """The kind of place in which commands run."""
        return self.place.environment

    def mounting(self, mounts: Sequence[Mount]) -> "AttemptWorkspaces":
        """Return these workspaces, with other mounts in every container."""
        return replace(self, mounts=tuple(mounts))

    def as_recorded(self, steps: Sequence[RecordedStep]) -> "AttemptWorkspaces":
        """Return these workspaces at the paths that the recorded steps name."""
        of_0_1 = replace(self, names_journal=False)
        root = of_0_1.root.encode()
        is_named = self.environment == "host" and any(root in step.request for step in steps)
        return of_0_1 if is_named else self

    @asynccontextmanager
    async def open(self, name: str, *, image: str, goes_on: bool) -> AsyncIterator[Workspace]:
        """Open the workspace of that name, and remove it after the block.

        It starts at the base commit, from a snapshot, or as a container left by a dead process.

        Raises:
            WorkspaceError: the workspace is not available.
        """
        labels = {
            **_labels(self.attempt_id, self.instance),
            ownership.JOURNAL: self.journal_id,
            WORKSPACE_LABEL: f"{self.journal_id}/{self.attempt_id}/{name}",
        }
        folder = self._folder(name)
        adopt = f"{WORKSPACE_LABEL}={labels[WORKSPACE_LABEL]}" if goes_on else None
        image = image or self.instance.image
        workspace = await _open(
            self.instance, self.place, labels, folder, adopt, image, self.mounts
        )
        self.removed.update(workspace.removed)
        try:
            yield workspace
        finally:
            await workspace.close()

    def _folder(self, name: str) -> str:
        """Return the name of a host workspace, the same in every process that resumes it."""
        branch = name.split("/") if name else []
        journal = [self.journal_id[:8]] if self.names_journal else []
        return "-".join([*journal, self.origin_id, *branch])


@asynccontextmanager
async def workspace(
    instance: Instance, place: Place, purpose: str, *, grading: bool = True
) -> AsyncIterator[Workspace]:
    """Open a workspace at the base commit for a grading, and remove it after the block.

    Without `grading`, it is a workspace as for an arm.

    Raises:
        WorkspaceError: the workspace is not available.
    """
    folder = f"{purpose}-{secrets.token_hex(4)}"  # never resumed
    labels, image = _labels(purpose, instance), instance.image
    new = await _open(instance, place, labels, folder, None, image, grading=grading)
    try:
        yield new
    finally:
        await new.close()


@asynccontextmanager
async def open_apart(purpose: str) -> AsyncIterator[Workspace]:
    """Open a container of the base image, for source code of a row that reads a test log.

    It has Python, no network and no repository.

    Raises:
        ImageError: the base image cannot be had.
        WorkspaceError: the container is not available.
    """
    await asyncio.to_thread(lambda: ensure_base(connect()))
    apart = await DockerWorkspace.open(
        image=BASE_IMAGE,
        base_commit="",
        root="/",
        labels={ownership.ATTEMPT: purpose},
        grading=True,
    )
    try:
        yield apart
    finally:
        await apart.close()


def _labels(purpose: str, instance: Instance) -> dict[str, str]:
    return {ownership.ATTEMPT: purpose, "durabench.instance": instance.instance_id}


async def _open(
    instance: Instance,
    place: Place,
    labels: dict[str, str],
    folder: str,
    adopt: str | None,
    image: str,
    mounts: Sequence[Mount] = (),
    *,
    grading: bool = False,
) -> DockerWorkspace | HostWorkspace:
    """Open a workspace. `adopt` is the label of a container that a dead process left behind."""
    if place.problem:
        raise WorkspaceError(place.problem, retryable=False)
    if place.environment == "docker":
        return await DockerWorkspace.open(
            image=image,
            base_commit=instance.base_commit,
            root=instance.root,
            labels=labels,
            network=place.has_network(instance, "tests" if grading else "work"),
            limits=place.limits(instance),
            mounts=mounts,
            adopt=adopt,
            grading=grading,
        )

    def prepare(path: Path) -> None:
        try:
            repositories.checkout(instance, path, cache_folder())
        except RepositoryError as error:
            raise WorkspaceError(str(error), retryable=False) from error

    return await HostWorkspace.open(
        prepare=prepare, base_commit=instance.base_commit, labels=labels, name=folder
    )
