"""Instances per hour of the whole pipeline: solved in containers, graded and reported.

The model answers at once, so the processors are busy all the time. Every part of the pipeline is
measured by its processor time for one instance. With more processors, the rate grows until one part
that cannot use more of them is busy all the time (the utilisation law: Denning and Buzen, The
Operational Analysis of Queueing Network Models, 1978).
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.bench import metering
from tests.bench.metering import measured, read_cpu_s
from tests.bench.timing import Bound

INSTANCES, REPEATS, WORKERS = 5, 4, 2
CORES = 64
HOUR_S = 3600.0
ARM = {"name": "mini", "agent": "mini", "model": {"provider": "simulated", "skill": 1.0}}
_PARTS = {"dockerd": "Docker", "containerd": "Docker", "postgres": "PostgreSQL"}
"""The part of the pipeline to which a program belongs, by its name."""


@dataclass(frozen=True)
class Part:
    """What one instance takes of a part of the pipeline."""

    name: str
    cpu_s: float
    is_one_process: bool = False
    """Whether it can use one processor only, however many there are."""


def run(folder: Path, pairs: int) -> list[Bound]:
    """Measure once, after a run that builds the images. A mean needs no repetition by `pairs`."""
    with metering.workers(folder, WORKERS) as setup:
        measured(setup, _declare("warm", 1), INSTANCES)
        cells = INSTANCES * REPEATS
        before, busy_s = _read_daemons(), _read_busy_s()
        written = psutil.disk_io_counters().write_bytes
        spent = measured(setup, _declare("measured", REPEATS), cells)
        busy_s = _read_busy_s() - busy_s
        written = psutil.disk_io_counters().write_bytes - written
        after = _read_daemons()
    parts = [
        Part("commands, workers and shards", spent.cpu_s / cells),
        Part("Prefect server", spent.server_cpu_s / cells, is_one_process=True),
        *(Part(name, (after[name] - before[name]) / cells) for name in after),
    ]
    rest_s = busy_s / cells - sum(part.cpu_s for part in parts)
    parts.append(Part("containers and the kernel", max(rest_s, 0.0)))
    rate = cells / spent.wall_s * HOUR_S
    return [
        *(Bound(part.name, part.cpu_s, None, "s", "processor time, an instance") for part in parts),
        Bound("written to disk", written / cells / 1e6, None, "MB", "an instance"),
        Bound("here", rate, None, "instances an hour", f"{os.cpu_count()} processors"),
        predict(parts, CORES, rate),
    ]


def predict(parts: Sequence[Part], cores: int, rate: float) -> Bound:
    """Return the instances per hour with more processors, and what limits them.

    `rate` was measured here. All parts together use as large a share of the processors there.
    """
    share = rate * sum(part.cpu_s for part in parts) / HOUR_S / (os.cpu_count() or 1)
    limits = {
        "all processors": share * cores / sum(part.cpu_s for part in parts),
        **{part.name: 1 / part.cpu_s for part in parts if part.is_one_process and part.cpu_s},
    }
    first = min(limits, key=lambda name: limits[name])
    return Bound(
        f"on {cores} processors",
        limits[first] * HOUR_S,
        None,
        "instances an hour, by the model",
        f"limited by: {first}",
    )


def _declare(name: str, repeats: int) -> dict[str, object]:
    return {
        "name": name,
        "arms": [ARM],
        "dataset": "bundled",
        "environment": "docker",
        "execution": "distributed",
        "select": {"sample": INSTANCES},
        "repeats": repeats,
        "concurrency": 2 * (os.cpu_count() or 1),
        "evaluation_timeout_s": 300,
    }


def _read_busy_s() -> float:
    times = psutil.cpu_times()
    return float(sum(times[:7]) - times.idle - times.iowait)


def _read_daemons() -> dict[str, float]:
    """Return the processor time of Docker and of the databases so far, in seconds."""
    seconds = dict.fromkeys(_PARTS.values(), 0.0)
    for process in psutil.process_iter(["name"]):
        if part := _PARTS.get(process.info["name"]):
            with suppress(psutil.Error):  # it has just ended
                seconds[part] += read_cpu_s(process.pid)
    return seconds
