"""The machine on which containers run."""

import shutil
from contextlib import suppress

from agent.workspaces.docker_daemon import client, docker_errors
from agent.workspaces.limits import GB


def machine() -> dict[str, float]:
    """Return what the daemon's machine has, by the name of the setting; blocking.

    `disk_gb` is missing if the daemon is on another machine.

    Raises:
        WorkspaceError: no daemon, or Docker failed.
    """
    with docker_errors("none"):
        info = client().info()
    found = {"memory_gb": info["MemTotal"] / GB, "cpus": float(info["NCPU"])}
    with suppress(OSError):
        found["disk_gb"] = shutil.disk_usage(info["DockerRootDir"]).free / GB
    return found
