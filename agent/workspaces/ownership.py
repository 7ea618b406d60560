"""Ownership of a container or folder: its user and machine, and its process there."""

import asyncio
import functools
import hashlib
import os
import secrets
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import TypeVar

import psutil

ATTEMPT = "durabench.attempt"
JOURNAL = "durabench.journal"
"""The id of the journal that records the attempt."""

OWNER = "durabench.owner"
PROCESS = "durabench.process"

_NAME_PREFIX = "durabench-"

_ENDED = (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)


@functools.cache
def owner() -> str:
    """Return one name for this user on this machine, the same in every process and for every lake.

    In another process namespace, as in another container, the name differs.
    """
    try:
        machine = Path("/etc/machine-id").read_text(encoding="ascii").strip()
    except OSError:
        machine = os.uname().nodename
    parts = ("durabench", str(os.getuid()), machine, str(Path("/proc/self/ns/pid").readlink()))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def process() -> str:
    """Return a name for this process, `<pid>-<start time>`, which no later process gets.

    The start time is in clock ticks since the machine was booted, which no change of the clock
    affects.
    """
    pid = os.getpid()
    return f"{pid}-{_start_ticks(pid)}"


def lives(process_name: str) -> bool:
    """Return True if the process of that name still runs, paused or not."""
    pid, _, start = process_name.partition("-")
    try:
        return str(_start_ticks(int(pid))) == start and (
            psutil.Process(int(pid)).status() not in _ENDED
        )
    except (psutil.Error, ValueError):
        return False


def container_name() -> str:
    """Return a new name for a container of this process."""
    return f"{_NAME_PREFIX}{process()}-{secrets.token_hex(6)}"


def process_of(container: str) -> str:
    """Return the process that owns the container of that name."""
    return container.removeprefix(_NAME_PREFIX).rpartition("-")[0]


def labels(others: Mapping[str, str]) -> dict[str, str]:
    """Return the labels of the owner, and others."""
    return {**others, OWNER: owner(), PROCESS: process()}


def _start_ticks(pid: int) -> int:
    """Return the start time of a process in clock ticks since the machine was booted.

    psutil adds the time of boot, which moves with the clock. If that is equal before and after,
    psutil added the same.
    """
    while True:
        booted = psutil.boot_time()
        since_boot_s: float = psutil.Process(pid).create_time() - booted
        if psutil.boot_time() == booted:
            return round(since_boot_s * os.sysconf("SC_CLK_TCK"))


T = TypeVar("T")


async def complete(work: Coroutine[object, object, T]) -> T:
    """Await `work` to its end, even if cancelled meanwhile, and only then raise the cancellation.

    A container whose creation is abandoned half-way would have no owner.
    """
    task = asyncio.ensure_future(work)
    cancelled = False
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            cancelled = True
        except Exception:  # noqa: S110 - result() below raises it
            pass
    result = task.result()
    if cancelled:
        raise asyncio.CancelledError
    return result
