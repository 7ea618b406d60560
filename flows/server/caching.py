"""What the tasks of cells have in common: a result is kept, broken infrastructure is retried."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from prefect import task
from prefect.client.schemas.objects import State, TaskRun
from prefect.filesystems import RemoteFileSystem
from prefect.settings import PREFECT_API_URL
from prefect.tasks import Task, exponential_backoff

from agent.errors import InfrastructureError
from flows.experiments.keys import result_name
from flows.server.retry import patiently
from flows.storage.lake import Lake

P = ParamSpec("P")
R = TypeVar("R")

_BLOCKS: dict[tuple[str | None, str], RemoteFileSystem] = {}
"""The blocks that this process has saved, by server and place."""


async def worth_retrying(task: Task[..., Any], run: TaskRun, state: State[Any]) -> bool:
    """Whether a failed task run is worth another try: what is broken may be back in minutes.

    A coroutine that awaits the result: with a plain function Prefect would turn retries of
    asynchronous tasks off without a word.
    """
    error = await state.aresult(raise_on_failure=False)
    return isinstance(error, InfrastructureError) and error.retryable


async def result_storage(lake: Lake) -> Path | RemoteFileSystem:
    """Where tasks keep their results, as Prefect takes it.

    That of an object store has to be a block which the server knows. It holds no credentials:
    those are every worker's own.
    """
    place = lake.results
    if isinstance(place, Path):
        return place
    known = (PREFECT_API_URL.value(), str(place))
    if known not in _BLOCKS:
        block = RemoteFileSystem(basepath=str(place), settings=dict(place.storage_options))
        name = f"durabench-{hashlib.sha256(str(place).encode()).hexdigest()[:16]}"
        await patiently(lambda: block.asave(name, overwrite=True))
        _BLOCKS[known] = block
    return _BLOCKS[known]


def kept(
    name: str, run_name: str, key: Callable[[dict[str, Any]], str]
) -> Callable[[Callable[P, R]], Task[P, R]]:
    """Return a decorator for a task whose result is cached for good under a key.

    `key` takes the task's parameters (see `flows.experiments.keys`). The result is a JSON value
    that only points at rows of the lake, so that no upgrade can make it unreadable.
    """
    return task(
        name=name,
        task_run_name=run_name,
        cache_key_fn=lambda context, parameters: result_name(name, key(parameters)),
        persist_result=True,
        result_serializer="json",
        retries=2,
        retry_delay_seconds=exponential_backoff(backoff_factor=2),
        retry_jitter_factor=1,
        retry_condition_fn=worth_retrying,
    )
