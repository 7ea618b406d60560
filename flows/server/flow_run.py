"""The experiment of a flow run: inline, in a file or in a Prefect Variable."""

import asyncio
import re
from pathlib import Path

from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import FlowRun
from prefect.context import FlowRunContext

from flows.display.errors import IncompleteRun, UsageError
from flows.experiments.declaration import Experiment, ExperimentSource, from_yaml, load, parse
from flows.server.retry import patiently

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
