"""Expected ends of flows and tasks as states: a log has one line for each, and no traceback."""

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from prefect.client.schemas.objects import State
from prefect.context import TaskRunContext
from prefect.exceptions import Abort
from prefect.states import Failed

from agent.errors import AgentError
from eval.errors import DatasetError, ImageError, PredictionsError
from flows.display.errors import GateFailed, IncompleteRun, UsageError
from flows.server.flow_run import find_own
from reports.errors import ReportError

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
