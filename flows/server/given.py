"""The experiment of a flow run: inline, in a file or in a Prefect Variable."""

import asyncio
import re
from pathlib import Path

from prefect.client.orchestration import get_client
from prefect.context import FlowRunContext

from flows.display.errors import IncompleteRun, UsageError
from flows.experiments.declaration import Experiment, from_yaml, load, parse
from flows.server.retry import patiently

_VARIABLE = re.compile(r"[a-zA-Z0-9_-]+")
"""Names of Variables. A path has a suffix, and therefore a dot."""


async def declared(given: Experiment | str) -> Experiment:
    """Return the experiment that a flow run was given. Text names a file or a Variable.

    Raises:
        UsageError: there is no such file or Variable, or its content is invalid.
    """
    if isinstance(given, Experiment):
        return given
    if not _VARIABLE.fullmatch(given):
        return await asyncio.to_thread(load, Path(given))
    async with get_client() as client:
        found = await patiently(client.read_variable_by_name, given)
    if found is None:
        raise UsageError(
            f"the Prefect server has no Variable {given!r}: create it under Variables in its UI, "
            "or name an experiment file, such as experiment.yaml"
        )
    source = f"Variable {given}"
    content = from_yaml(found.value, source) if isinstance(found.value, str) else found.value
    return parse(content, source)


MOST_BEGINNINGS = 50
"""Beginnings of a flow run. A job whose work kills each worker would begin again without an end."""


def check_beginnings() -> None:
    """Check that the process of the current flow run did not die all the time.

    Raises:
        IncompleteRun: it did.
    """
    context = FlowRunContext.get()
    run = context.flow_run if context else None
    if run is not None and run.run_count > MOST_BEGINNINGS:
        raise IncompleteRun(
            f"it was begun {run.run_count} times: see why its workers die, then submit it again"
        )


async def name_run(name: str) -> None:
    """Name the current flow run. Its results are under the name of its experiment."""
    context = FlowRunContext.get()
    assert context is not None and context.flow_run is not None  # noqa: PT018
    async with get_client() as client:
        await patiently(client.update_flow_run, context.flow_run.id, name=name)
