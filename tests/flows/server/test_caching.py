"""Tasks of cells, in a flow run on a real Prefect server."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from prefect import flow, get_client, tags
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import State
from prefect.context import FlowRunContext, TaskRunContext
from prefect.exceptions import ObjectNotFound
from prefect.filesystems import RemoteFileSystem
from prefect.states import Completed

from flows.server.caching import filed, kept, result_of
from flows.storage.lake import Lake
from tests.servers.object_store import ObjectStore

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


async def test_cells_store_results_on_a_server_without_block_types() -> None:
    """Each of them finds no block type on the server, and only one of them can register it."""
    with ObjectStore() as store:
        lakes = [Lake.existing(store.create_lake()) for _ in range(8)]
        async with get_client() as client:
            await _forget_block_type(client)
            made = await asyncio.gather(*(filed(tagged, lake) for lake in lakes + lakes))
            blocks = await client.read_block_documents_by_type(
                RemoteFileSystem.get_block_type_slug()
            )
    stored = {str(block.data["basepath"]) for block in blocks}
    assert stored == {str(lake.results) for lake in lakes}
    assert {task.result_storage.basepath for task in made} == stored


async def _forget_block_type(client: PrefectClient) -> None:
    """Delete the type of blocks for object stores, and its blocks, from the server."""
    with suppress(ObjectNotFound):
        known = await client.read_block_type_by_slug(RemoteFileSystem.get_block_type_slug())
        await client.delete_block_type(known.id)
