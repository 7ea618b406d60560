"""Find the needs of an experiment that this machine does not meet, before anything starts."""

import shutil
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.errors import InfrastructureError
from agent.workspaces import Environment
from agent.workspaces.docker_daemon import client, docker_errors
from eval.errors import ImageError
from eval.image_store import ImageStore
from eval.instances import task_repo
from eval.types import Instance
from flows.experiments.arms import ArmSpec
from flows.experiments.declaration import Experiment
from flows.experiments.models import find_model_problems
from flows.storage.images import cache_folder
from flows.storage.lake import Lake

LEAST_FREE_BYTES = 10**9
"""A disk with less has no room for a run."""


@dataclass(frozen=True)
class Needs:
    """The needs of an experiment in an environment."""

    experiment: Experiment
    environment: Environment
    lake: Lake
    runs_here: bool
    """False if workers on other machines run the cells, which look for themselves."""

    def find_missing(self, arms: Sequence[ArmSpec], instances: Sequence[Instance]) -> list[str]:
        """Return what these arms lack on these instances, a line for each. Nothing is pulled.

        Keys and addresses are left to whoever asks the models.
        """
        missing = find_model_problems(self.experiment, arms, calls_here=False)
        if not self.runs_here:
            return missing
        folders = [cache_folder(), Path(tempfile.gettempdir())]
        if isinstance(self.lake.root, Path):
            folders.append(self.lake.root)
        if self.environment == "docker":
            try:
                with docker_errors("none"):
                    folders.append(Path(client().info()["DockerRootDir"]))
                store = ImageStore(cache_folder())
                why = store.explain_unobtainable(instances, task_repo(self.experiment.dataset))
            except (ImageError, InfrastructureError) as error:
                why = str(error)
            missing += [why] if why else []
        return missing + find_full_disks(folders)


def find_full_disks(folders: Iterable[Path], least_bytes: int = LEAST_FREE_BYTES) -> list[str]:
    """Return a line for each disk with less free space than a run needs."""
    lines = dict[int, str]()
    for folder in folders:
        while not folder.exists():
            folder = folder.parent
        free, device = shutil.disk_usage(folder).free, folder.stat().st_dev
        if free < least_bytes:
            lines.setdefault(
                device,
                f"the disk of {folder} has {free / 1e9:.1f} GB free, and a run needs "
                f"{least_bytes / 1e9:.0f} GB: free some, perhaps with `durabench prune --remove`",
            )
    return list(lines.values())
