"""The resource limits of a container, and their observer."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic

from agent.errors import WorkspaceError
from agent.workspaces.ownership import complete
from agent.workspaces.shell import Pressure

GB = 2**30
"""Bytes of a gigabyte, as Docker counts them in `--memory 4g`."""

RESERVE_BYTES = GB // 2
"""Containers are ended when less is free on the disk of Docker's machine, for whatever reason."""

_DISK_CHECK_S = 5.0
_DISK_CHECK_SHARE = 0.2
"""Largest part of the time that measuring may take: a daemon walks through the files."""

_WHAT = {
    "memory_gb": "a process was killed",
    "pids": "a process could not start",
    "disk_gb": "the container was ended",
}


@dataclass(frozen=True)
class ResourceLimits:
    """Resource limits of one container."""

    memory_bytes: int = 4 * GB
    """The test suites of the larger SWE-bench repositories stay under 3 GiB. No swap is added."""
    pids: int = 1024
    """Parallel test runners need hundreds. A fork bomb stops here, not at the host's limit."""
    cpus: float = 2.0
    """A share of time, so that machines with fewer processors accept it. Equal for every arm."""
    disk_bytes: int = 20 * GB
    """Of files that are written or changed. Few of Docker's storage drivers have quotas, so the
    size is measured every five seconds, and a container that is too large is ended."""


class LimitObserver:
    """Observes the limits of one container, and ends it if its files become too large."""

    def __init__(self, limits: ResourceLimits, opening: Pressure) -> None:
        """`opening` is the pressure at the opening of the workspace."""
        self.is_overfull = False
        self.is_disk_full = False
        """True if the container was ended to keep the disk of its machine from being full."""
        self.is_out_of_memory = False
        """True if the whole container ended for lack of memory."""
        self._limits = limits
        self._opening = self._last = opening

    def get_reached(self, now: Pressure) -> dict[str, str]:
        """Return the limits that were reached since the opening: name of the setting to limit."""
        return self._compare(self._opening, now)

    def news(self, now: Pressure) -> str:
        """Return lines about the limits that were reached since the last call, for an output."""
        reached = self._compare(self._last, now)
        self._last = now
        return "".join(
            f"\n[{_WHAT[name]}: the container reached {limit}]" for name, limit in reached.items()
        )

    def ending(self) -> str | None:
        """Return why the container was ended, if a limit is the reason, else None."""
        limit = next(iter(self._compare(Pressure(), Pressure()).values()), None)
        return limit and f"the container reached {limit} and was ended"

    async def watch_disk(
        self,
        measure: Callable[[int], tuple[int, int]],
        end: Callable[[], Coroutine[object, object, None]],
    ) -> None:
        """End the container when its files become too large, or when the disk is nearly full.

        Ending all of it frees the disk at once. Commands that only lost their processes could
        continue to write with the next ones. `measure` can block. It takes the limit, and returns
        the bytes of the files and the free bytes of the disk.
        """
        wait_s = _DISK_CHECK_S
        while not (self.is_overfull or self.is_disk_full):
            await asyncio.sleep(wait_s)
            start = monotonic()
            with suppress(WorkspaceError):  # the daemon restarts, or the container is gone
                used, free = await asyncio.to_thread(measure, self._limits.disk_bytes)
                self.is_overfull = used > self._limits.disk_bytes
                self.is_disk_full = free < RESERVE_BYTES
            wait_s = max(_DISK_CHECK_S, (monotonic() - start) / _DISK_CHECK_SHARE)
        await complete(end())

    def _compare(self, before: Pressure, now: Pressure) -> dict[str, str]:
        limits, reached = self._limits, {}
        if now.killed > before.killed or self.is_out_of_memory:
            reached["memory_gb"] = f"the memory limit of {limits.memory_bytes / GB:.3g} GB"
        if now.refused > before.refused:
            reached["pids"] = f"the limit of {limits.pids} processes"
        if self.is_overfull:
            reached["disk_gb"] = f"the disk limit of {limits.disk_bytes / GB:.3g} GB"
        return reached
