"""Measurements of whole processes, interleaved so that a noisy machine affects both sides alike."""

import os
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Contender:
    """A command to measure. Each run has a new folder."""

    name: str
    command: Callable[[Path], Sequence[str]]
    """A function from the run's folder, which is also its working directory, to the command."""


@dataclass(frozen=True)
class Ratio:
    """Ratio of our time to theirs, pair by pair."""

    title: str
    ours_s: list[float]
    theirs_s: list[float]
    limit: float
    """The promised maximum of the ratio."""

    @property
    def median(self) -> float:
        """Return the median of the pairs' ratios."""
        return statistics.median(a / b for a, b in zip(self.ours_s, self.theirs_s, strict=True))

    @property
    def holds(self) -> bool:
        """Return True if the promise is kept."""
        return self.median <= self.limit

    def __str__(self) -> str:
        ours, theirs = statistics.median(self.ours_s), statistics.median(self.theirs_s)
        verdict = "holds" if self.holds else "DOES NOT HOLD"
        return (
            f"{self.title}: {ours:.1f} s against {theirs:.1f} s, ratio {self.median:.2f} "
            f"(promised: at most {self.limit}) {verdict}"
        )


@dataclass(frozen=True)
class Bound:
    """A figure with or without a promised maximum."""

    title: str
    measured: float
    limit: float | None
    """The promised maximum, if there is one."""
    unit: str
    detail: str

    @property
    def holds(self) -> bool:
        """Return True if the promise is kept."""
        return self.limit is None or self.measured <= self.limit

    def __str__(self) -> str:
        told = f"{self.title}: {self.measured:.2f} {self.unit} ({self.detail})"
        if self.limit is None:
            return told
        verdict = "holds" if self.holds else "DOES NOT HOLD"
        return f"{told} (promised: at most {self.limit} {self.unit}) {verdict}"


@dataclass(frozen=True)
class Used:
    """Time and memory that one run of a program used."""

    wall_s: float
    cpu_s: float
    gibibytes: float
    """Peak resident memory of its largest process."""

    def __str__(self) -> str:
        return (
            f"{self.wall_s:.1f} s, {self.cpu_s:.1f} s of processor time, {self.gibibytes:.2f} GiB"
        )


def measured(command: Sequence[str], folder: Path) -> Used:
    """Run a command in a folder, and print what it used.

    Raises:
        RuntimeError: it failed; the message has the end of its output.
    """
    environment = {
        **os.environ,
        "OPENAI_API_KEY": "none",
        "MSWEA_COST_TRACKING": "ignore_errors",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }
    name = " ".join([Path(command[0]).name, *command[1:3]])
    with (folder / "output.txt").open("w") as output:
        start = time.perf_counter()
        running = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=output, stderr=output
        )
        _, status, usage = os.wait4(running.pid, 0)
        running.returncode = os.waitstatus_to_exitcode(status)
        wall_s = time.perf_counter() - start
    if running.returncode != 0:
        tail = (folder / "output.txt").read_text()[-2000:]
        raise RuntimeError(f"{name} ended with {running.returncode}:\n{tail}")
    used = Used(wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 2**20)
    print(f"  {name}: {used}", flush=True)
    return used


def compare(
    title: str, ours: Contender, theirs: Contender, folder: Path, *, pairs: int, limit: float
) -> tuple[Ratio, Ratio]:
    """Run both commands alternately, `pairs` times each. Return wall time and processor time.

    Raises:
        RuntimeError: a run failed; the message has the end of its output.
    """
    used: dict[str, list[Used]] = {ours.name: [], theirs.name: []}
    for pair in range(pairs):
        for contender in (ours, theirs):
            run_folder = folder / f"{contender.name}-{pair}"
            run_folder.mkdir(parents=True)
            used[contender.name].append(measured(contender.command(run_folder), run_folder))
    wall = ([run.wall_s for run in used[side.name]] for side in (ours, theirs))
    cpu = ([run.cpu_s for run in used[side.name]] for side in (ours, theirs))
    return (
        Ratio(f"{title}, wall time", *wall, limit),
        Ratio(f"{title}, processor time", *cpu, limit),
    )
