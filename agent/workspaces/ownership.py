"""Ownership of a container or folder: its user and machine, and its process there."""

import functools
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

ATTEMPT = "durabench.attempt"
JOURNAL = "durabench.journal"
"""The id of the journal that records the attempt."""

OWNER = "durabench.owner"
PROCESS = "durabench.process"

_STATE, _START = 0, 19  # fields of /proc/PID/stat, counted after the name


@functools.cache
def owner() -> str:
    """Return one name for this user on this machine, the same in every process and for every lake.

    In another process namespace, as in another container, the name differs.
    """
    parts = ("durabench", str(os.getuid()), _machine(), str(Path("/proc/self/ns/pid").readlink()))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def process() -> str:
    """Return a name for this process, `<pid>-<start time>`, which no later process gets."""
    pid = os.getpid()
    return f"{pid}-{_stat(pid)[_START]}"


def lives(named: str) -> bool:
    """Return True if the process of that name still runs, paused or not."""
    pid, _, start = named.partition("-")
    try:
        fields = _stat(int(pid))
    except (OSError, ValueError):
        return False
    return fields[_START] == start and fields[_STATE] not in "XZ"


def labels(given: Mapping[str, str]) -> dict[str, str]:
    """Return the given labels with the labels of the owner."""
    return {**given, OWNER: owner(), PROCESS: process()}


def _machine() -> str:
    try:
        return Path("/etc/machine-id").read_text(encoding="ascii").strip()
    except OSError:
        return os.uname().nodename


def _stat(pid: int) -> list[str]:
    text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    return text.rpartition(")")[2].split()
