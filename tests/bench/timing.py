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
    """Ratio of our wall time to theirs, pair by pair."""

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
    """A figure with a promised maximum, or one that is only reported."""

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


def compare(
    title: str, ours: Contender, theirs: Contender, folder: Path, *, pairs: int, limit: float
) -> Ratio:
    """Run both commands alternately, `pairs` times each.

    Raises:
        RuntimeError: a run failed; the message has the end of its output.
    """
    seconds: dict[str, list[float]] = {ours.name: [], theirs.name: []}
    for pair in range(pairs):
        for contender in (ours, theirs):
            own = folder / f"{contender.name}-{pair}"
            own.mkdir(parents=True)
            seconds[contender.name].append(_timed(contender, own))
            print(f"  {contender.name}: {seconds[contender.name][-1]:.1f} s", flush=True)
    return Ratio(title, seconds[ours.name], seconds[theirs.name], limit)


def _timed(contender: Contender, folder: Path) -> float:
    command = contender.command(folder)
    environment = {
        **os.environ,
        "OPENAI_API_KEY": "none",
        "MSWEA_COST_TRACKING": "ignore_errors",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }
    with (folder / "output.txt").open("w") as output:
        start = time.perf_counter()
        done = subprocess.run(
            command, cwd=folder, env=environment, stdout=output, stderr=output, check=False
        )
        seconds = time.perf_counter() - start
    if done.returncode != 0:
        tail = (folder / "output.txt").read_text()[-2000:]
        raise RuntimeError(f"{contender.name} ended with {done.returncode}:\n{tail}")
    return seconds
