"""Tasks of cells, in a flow run on a real Prefect server."""

from pathlib import Path
from typing import Any

import pytest
from prefect import flow, tags
from prefect.client.schemas.objects import State
from prefect.context import FlowRunContext, TaskRunContext
from prefect.states import Completed

from flows.server.caching import filed, kept, result_of
from flows.storage.lake import Lake

pytestmark = [pytest.mark.usefixtures("prefect"), pytest.mark.slow]


@kept("tagged", "tagged", lambda parameters: "key")
async def tagged() -> State[list[str]]:
    """Return the tags of the task run."""
    context = TaskRunContext.get()
    assert context is not None
    return Completed(data=context.task_run.tags)


async def test_task_runs_do_not_inherit_the_tags_of_their_flow_run(tmp_path: Path) -> None:
    """For each tag Prefect asks the server for a limit before the task may begin."""

    @flow
    async def tagged_flow() -> tuple[Any, list[str]]:
        context = FlowRunContext.get()
        assert context is not None
        assert context.flow_run is not None
        return context.flow_run.tags, await result_of(await filed(tagged, Lake.open(str(tmp_path))))

    with tags("durabench"):
        assert await tagged_flow() == (["durabench"], [])
