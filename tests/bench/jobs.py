"""The time of a job and of a pipeline besides that of their arms."""

import asyncio
import os
import random
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from flows.storage.images import CACHE_VARIABLE
from tests.bench.timing import Bound

MEGABYTES = 50
JOB_S, OF_THE_LONGEST_PATH = 10.0, 1.3
WORK_S = 20
"""Seconds that the arm of a step works."""

_MODEL = {"provider": "scripted"}
_SETTINGS = {"environment": "docker", "image": "durabench/base:bookworm", "verify": "test -f a.txt"}


def run(folder: Path, pairs: int) -> list[Bound]:
    """Measure a job with a warm mirror, `pairs` times, and a pipeline once."""
    with _installation(folder) as source:
        _job(source, "first", folder)  # the mirror, the image and all modules are there from now on
        jobs = [_job(source, f"task {number}", folder) for number in range(pairs)]
        pipeline_s = _pipeline(source, folder)
    return [
        Bound(
            f"a job in a repository of {MEGABYTES} MB with a warm mirror, without its arm",
            min(jobs),
            JOB_S,
            "s",
            ", ".join(f"{each:.1f}" for each in jobs),
        ),
        Bound(
            "a pipeline of ten steps in three layers against its longest path",
            pipeline_s / (3 * WORK_S),
            OF_THE_LONGEST_PATH,
            "×",
            f"{pipeline_s:.1f} s against {3 * WORK_S} s",
        ),
    ]


@contextmanager
def _installation(folder: Path) -> Iterator[str]:
    """Yield a large repository, with a cache and a Prefect server of their own."""
    from prefect.testing.utilities import prefect_test_harness

    repository = folder / "large"
    repository.mkdir()
    content = random.Random(0)
    for number in range(MEGABYTES):
        (repository / f"{number}.bin").write_bytes(content.randbytes(10**6))
    (repository / "a.txt").write_text("0\n")
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.invalid"]
    for command in (["init", "-q", "-b", "main"], ["add", "."], [*identity, "commit", "-qm", "a"]):
        subprocess.run(["git", *command], cwd=repository, check=True)
    before = os.environ.get(CACHE_VARIABLE)
    os.environ[CACHE_VARIABLE] = str(folder / "cache")
    try:
        with prefect_test_harness(server_startup_timeout=120):
            yield str(repository)
    finally:
        os.environ.pop(CACHE_VARIABLE)
        if before is not None:
            os.environ[CACHE_VARIABLE] = before


def _arm(command: str, name: str = "arm") -> dict[str, Any]:
    model = {**_MODEL, "replies": [command]}
    return {"name": name, "agent": "tests.flows.jobs.arms:solve", "model": model}


def _job(source: str, task: str, folder: Path) -> float:
    """Return the wall time of a job whose arm needs next to none."""
    from flows.jobs.job import job
    from flows.jobs.request import Request

    asked = Request.model_validate(
        {**_SETTINGS, "source": source, "task": task, "arms": [_arm(f"echo {task} >a.txt")]}
    )
    begun = time.perf_counter()
    asyncio.run(job(asked, str(folder / "lake")))
    return time.perf_counter() - begun


def _pipeline(source: str, folder: Path) -> float:
    """Return the wall time of ten steps in layers of four, three and three."""
    from flows.jobs.definition import Pipeline
    from flows.jobs.pipeline import pipeline

    arms, steps, before = [], [], list[str]()
    for layer, width in enumerate((4, 3, 3)):
        names = [f"s{layer}-{number}" for number in range(width)]
        arms += [_arm(f"sleep {WORK_S}; echo 1 >{name}.txt", name) for name in names]
        steps += [{"name": n, "task": "t", "arm": n, "depends_on": before} for n in names]
        before = names
    content = {**_SETTINGS, "name": "ten", "source": source, "arms": arms, "steps": steps}
    begun = time.perf_counter()
    asyncio.run(pipeline(Pipeline.model_validate(content), str(folder / "lake")))
    return time.perf_counter() - begun
