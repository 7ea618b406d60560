"""The resources that a row asks for: the door for such values of datasets and task folders."""

import json
import math
import re
import reprlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from eval.errors import DatasetError

_MB_IN_GB = 1024
_UNITS_IN_GB = {"K": 1 / 1024**2, "M": 1 / 1024, "G": 1.0, "T": 1024.0}
_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?([KMGT])i?B?", re.IGNORECASE)

_OF_SWE_BENCH_LIVE = frozenset({"docker_image", "test_cmds"})
"""Columns that identify a row of SWE-bench-Live."""
_SWE_BENCH_LIVE_GB = 16.0


@dataclass(frozen=True)
class Demand:
    """The needs of the tests of one row; None if the row does not state one. 1 GB is 2^30 bytes."""

    memory_gb: float | None = None
    cpus: float | None = None
    pids: int | None = None
    disk_gb: float | None = None


def demand(row: Mapping[str, Any]) -> Demand:
    """Return what a row asks for.

    The columns `resources` and `environment` are read, as objects or as JSON, with the names of
    `Demand` or of Harbor's task.toml: `cpus`, `memory_mb` and `storage_mb`, or `memory` and
    `storage` such as `4G`. Rows of SWE-bench-Live get the memory that its runner gives them.

    Raises:
        DatasetError: a value is not a positive number, or not a size.
    """
    stated = {**_object(row.get("environment")), **_object(row.get("resources"))}
    is_live = all(row.get(column) for column in _OF_SWE_BENCH_LIVE)
    if not stated:
        return Demand(_SWE_BENCH_LIVE_GB if is_live else None)

    def first(**readers: Callable[[Any], float]) -> float | None:
        for name, read in readers.items():
            if (value := stated.get(name)) is None:
                continue
            try:
                number = read(value)
            except (TypeError, ValueError, OverflowError):
                number = 0.0
            if not (0 < number < math.inf):
                raise DatasetError(
                    f"{name} must be a positive number or a size, not {reprlib.repr(value)}"
                )
            return number
        return None

    memory_gb = first(memory_gb=_number, memory_mb=_megabytes, memory=_size)
    if memory_gb is None and is_live:
        memory_gb = _SWE_BENCH_LIVE_GB
    pids = first(pids=_number)
    return Demand(
        memory_gb=memory_gb,
        cpus=first(cpus=_number),
        pids=None if pids is None else math.ceil(pids),
        disk_gb=first(disk_gb=_number, storage_mb=_megabytes, storage=_size),
    )


def shortage(limits_reached: Mapping[str, str]) -> str:
    """Return what tests lacked, and what to do about it, given `Shell.limits_reached`."""
    remedy = " and ".join(f"resources.{name}" for name in limits_reached)
    return f"the tests reached {' and '.join(limits_reached.values())}: raise {remedy}"


def _object(value: Any) -> Mapping[str, Any]:
    """Return an object, or an empty one: other datasets may have other columns of that name."""
    if isinstance(value, str) and value.startswith("{"):
        with suppress(ValueError):
            value = json.loads(value)
    return value if isinstance(value, Mapping) else {}


def _number(value: Any) -> float:
    if isinstance(value, bool):
        raise ValueError
    return float(value)


def _megabytes(value: Any) -> float:
    return _number(value) / _MB_IN_GB


def _size(value: Any) -> float:
    match = _SIZE.fullmatch(str(value).strip())
    if not match:
        raise ValueError
    return float(match[1]) * _UNITS_IN_GB[match[2].upper()]
