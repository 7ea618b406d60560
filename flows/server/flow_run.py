"""The experiment of a flow run, inline, in a file or in a Prefect Variable, and its end as a state.

A log has one line for each expected end, and no traceback.
"""

import asyncio
import re
from collections.abc import Callable, Coroutine
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import FlowRun, State
from prefect.context import FlowRunContext, TaskRunContext
from prefect.exceptions import Abort
from prefect.states import Failed

from agent.errors import AgentError
from eval.errors import DatasetError, ImageError, PredictionsError
from flows.display.errors import GateFailed, IncompleteRun, UsageError
from flows.experiments.declaration import Experiment, ExperimentSource, from_yaml, load, parse
from flows.server.retry import patiently
from reports.errors import ReportError

_VARIABLE = re.compile(r"[a-zA-Z0-9_-]+")
"""Names of Variables. A path has a suffix, and therefore a dot."""


async def parse_declaration(source: ExperimentSource) -> Experiment:
    """Return the experiment of a flow run. Text names a file or a Variable.

    Raises:
        UsageError: there is no such file or Variable, or its content is invalid.
    """
    if isinstance(source, Experiment):
        return source
    if not _VARIABLE.fullmatch(source):
        return await asyncio.to_thread(load, Path(source))
    async with get_client() as client:
        variable = await patiently(client.read_variable_by_name, source)
    if variable is None:
        raise UsageError(
            f"the Prefect server has no Variable {source!r}: create it under Variables in its UI, "
            "or name an experiment file, such as experiment.yaml"
        )
    name, value = f"Variable {source}", variable.value
    return parse(from_yaml(value, name) if isinstance(value, str) else value, name)


def find_own() -> FlowRun | None:
    """Return the flow run of this process, or None outside of one."""
    context = FlowRunContext.get()
    return context.flow_run if context else None


MAX_STARTS = 50
"""Starts of a flow run. A job that kills each of its workers would otherwise restart endlessly."""


def check_starts() -> None:
    """Check that the current flow run was not restarted too often.

    Raises:
        IncompleteRun: it was.
    """
    run = find_own()
    if run is not None and run.run_count > MAX_STARTS:
        raise IncompleteRun(
            f"it was started {run.run_count} times: find out why its workers die, then submit it "
            "again"
        )


async def name_run(name: str) -> None:
    """Name the current flow run."""
    run = find_own()
    assert run is not None
    async with get_client() as client:
        await patiently(client.update_flow_run, run.id, name=name)


P = ParamSpec("P")
R = TypeVar("R")

EXPECTED = (
    GateFailed,
    IncompleteRun,
    UsageError,
    AgentError,
    DatasetError,
    ImageError,
    PredictionsError,
    ReportError,
)
"""Errors whose message says all. A command prints them as one line."""


def end_as_state(
    do: Callable[P, Coroutine[Any, Any, R]],
) -> Callable[P, Coroutine[Any, Any, R]]:
    """Return a function of a flow or a task that returns an expected error as its state.

    Who calls the flow or the task gets the error itself.
    """

    @wraps(do)
    async def run(*arguments: P.args, **options: P.kwargs) -> R:
        try:
            return await do(*arguments, **options)
        except EXPECTED as error:
            return fail(error)  # type: ignore[return-value]  # Prefect unwraps it

    return run


def fail(error: Exception, name: str | None = None) -> State[Any]:
    """Return an error as a Failed state with its message, named after its class by default.

    The engine of a deployed flow run would print the traceback of the error and end with exit code
    1, which its worker would try to explain. For an `Abort` it just ends. Its state is called
    Failed, since the name is an event, and after another one automations take the run for dead.
    """
    run, is_task = find_own(), TaskRunContext.get() is not None
    is_of_engine = run is not None and run.deployment_id is not None and not is_task
    data: BaseException = Abort(str(error)) if is_of_engine else error
    name = name or ("Failed" if is_of_engine else type(error).__name__)
    return Failed(name=name, message=str(error), data=data)
