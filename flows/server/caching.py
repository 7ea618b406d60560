"""Options shared by the tasks of cells: results are cached, infrastructure failures are retried."""

import asyncio
import hashlib
import inspect
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

from prefect import task
from prefect.client.schemas.objects import State, TaskRun
from prefect.context import TagsContext
from prefect.filesystems import RemoteFileSystem
from prefect.serializers import JSONSerializer
from prefect.settings import PREFECT_API_URL
from prefect.tasks import Task, exponential_backoff
from prefect.utilities.annotations import quote

from agent.errors import InfrastructureError
from flows.experiments.keys import result_name
from flows.server.flow_run import end_as_state
from flows.server.retry import beside_others, patiently
from flows.storage.lake import Lake

P = ParamSpec("P")
R = TypeVar("R")

_ERROR = "__exc_type__"
_CLASS_KEYS = ("__class__", _ERROR)
"""Keys that name a class in Prefect's JSON."""

_FILED: dict[tuple[str | None, str, Task[..., Any]], Any] = {}
"""Tasks of this process with their result storage, by server, location and task without it."""


async def worth_retrying(task: Task[..., Any], run: TaskRun, state: State[Any]) -> bool:
    """Return True if a failed task run should be retried: infrastructure may recover in minutes.

    This is a coroutine that awaits the result, because with a plain function Prefect silently
    disables retries of asynchronous tasks.
    """
    error = await state.aresult(raise_on_failure=False)
    return isinstance(error, InfrastructureError) and error.retryable


async def store_in_lake(task: Task[P, R], lake: Lake) -> Task[P, R]:
    """Return a task whose results are stored in a lake.

    It is made once for each lake and server: Prefect reads the source of a task's function.
    """
    location = lake.results
    key = (PREFECT_API_URL.value(), str(location), task)
    if key not in _FILED:
        storage: Path | RemoteFileSystem
        if isinstance(location, Path):
            storage = location
        else:
            # Prefect expects a block. It holds no credentials: every worker has its own.
            options = dict(location.storage_options)
            storage = RemoteFileSystem(basepath=str(location), settings=options)
            digest = hashlib.sha256(str(location).encode()).hexdigest()
            await patiently(_save, storage, f"durabench-{digest[:16]}")
        _FILED[key] = task.with_options(result_storage=storage)
    filed_task: Task[P, R] = _FILED[key]
    return filed_task


@beside_others
async def _save(block: RemoteFileSystem, name: str) -> None:
    """Save a block on the server, which may lack its type.

    Prefect looks for the block's type, schema and document, and then creates what is missing. Each
    of the three fails if another program creates it in between, and is found in the next attempt.
    """
    await block.asave(name, overwrite=True)


def cache_permanently(
    name: str, run_name: str, key: Callable[[dict[str, Any]], str]
) -> Callable[[Callable[P, Coroutine[Any, Any, R]]], Task[P, Coroutine[Any, Any, R]]]:
    """Return a decorator for a task whose result is cached permanently under a key.

    The task returns a state, whose message Prefect's UI shows. `result_of` returns the result.

    `key` computes the key from the task's parameters (see `flows.experiments.keys`). The result is
    a JSON value that only refers to rows of the lake, so that no upgrade can make it unreadable.
    """
    decorate = task(
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
    return lambda do: decorate(end_as_state(do))


async def result_of(
    task: Task[..., Coroutine[Any, Any, State[R]]],
    lake: Lake,
    *args: Any,
    refresh: bool = False,
    **kwargs: Any,
) -> R:
    """Return the result of a task, recorded in a lake or new. With `refresh` it is always new.

    Prefect is not to search its arguments for results of other task runs: they hold none. The task
    run does not inherit the tags of its flow run: Prefect asks the server for the limit of each
    tag, and a request on a connection that the server has just closed is repeated seconds later.

    Raises:
        InfrastructureError: the recorded result is not of the form in which results are recorded.
        Exception: what the task raised.
    """
    if not refresh:
        parameters = inspect.signature(task.fn).bind(*args, **kwargs).arguments
        assert task.cache_key_fn is not None
        name = task.cache_key_fn(cast("Any", None), parameters)
        assert name is not None
        refresh = not await asyncio.to_thread(_has_result, lake, name)
    stored = (await store_in_lake(task, lake)).with_options(refresh_cache=refresh)
    plain = {name: quote(value) for name, value in kwargs.items()}
    with TagsContext(current_tags=set()):
        state: State[R] = await stored(*map(quote, args), **plain, return_state=True)
    return await state.aresult()


def _has_result(lake: Lake, name: str) -> bool:
    """Return True if there is a recorded result, which is only data, for Prefect to read.

    A result file names the code that reads it: a serializer, its functions, and classes to make.
    Prefect also records the error of a run that failed, as an object of its class.
    """
    path = lake.results / name
    with lake.reading():
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return False
    try:
        record = json.loads(content)
        is_data = _is_json_record(record)
        value = json.loads(record["result"]) if is_data else None
        if isinstance(value, dict) and _ERROR in value:
            return False
        is_data = is_data and not _names_class(value)
    except RecursionError:
        is_data = False
    except ValueError:
        return False  # the file is damaged
    if not is_data:
        raise InfrastructureError(
            f"{path} would run code that is not Durabench's: find out who wrote it, remove it, and "
            "run again",
            retryable=False,
        )
    return True


def _is_json_record(record: Any) -> bool:
    if not isinstance(record, dict) or record.keys() != {"metadata", "result"}:
        return False
    metadata = record["metadata"]
    serializer = metadata.get("serializer") if isinstance(metadata, dict) else None
    plain = JSONSerializer().model_dump()
    return (
        isinstance(serializer, dict)
        and serializer.get("type") == "json"
        and {**plain, **serializer} == plain
        and isinstance(record["result"], str)
    )


def _names_class(value: Any) -> bool:
    """Return True if Prefect would make an object of a class that a JSON value names."""
    if isinstance(value, dict):
        return any(key in value for key in _CLASS_KEYS) or any(map(_names_class, value.values()))
    return isinstance(value, list) and any(map(_names_class, value))
