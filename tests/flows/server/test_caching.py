"""Tasks of cells, in a flow run on a real Prefect server."""

import asyncio
import base64
import json
import pickle
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
from prefect.serializers import JSONSerializer
from prefect.states import Completed

from agent.errors import InfrastructureError
from flows.experiments.keys import result_name
from flows.server.caching import cache_permanently, result_of, store_in_lake
from flows.storage.lake import Lake
from tests.servers.object_store import ObjectStore

pytestmark = [pytest.mark.usefixtures("prefect"), pytest.mark.slow]


@cache_permanently("tagged", "tagged", lambda parameters: "key")
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
        return context.flow_run.tags, await result_of(tagged, Lake.open(str(tmp_path)))

    with tags("durabench"):
        assert await tagged_flow() == (["durabench"], [])


RECORD: dict[str, Any] = {
    "metadata": {"storage_key": "result-key", "serializer": JSONSerializer().model_dump()},
    "result": json.dumps(["a tag"]),
}


def _read_by(**serializer: Any) -> dict[str, Any]:
    return {**RECORD, "metadata": {"serializer": {**JSONSerializer().model_dump(), **serializer}}}


PICKLED = base64.encodebytes(pickle.dumps(["a tag"])).decode()


@pytest.mark.parametrize(
    "record",
    [
        {**_read_by(type="pickle"), "result": PICKLED},
        {**RECORD, "metadata": {}, "result": PICKLED},
        {"serializer": {"type": "pickle"}, "data": PICKLED},
        _read_by(type="compressed", serializer={"type": "pickle"}),
        _read_by(object_decoder="subprocess.call"),
        _read_by(jsonlib="pickle"),
        _read_by(loads_kwargs={"cls": "json.JSONDecoder"}),
        {**RECORD, "result": json.dumps([{"__class__": "pathlib.Path", "data": "x"}])},
        {**RECORD, "result": json.dumps([{"__exc_type__": "SystemExit", "message": "x"}])},
        {**RECORD, "result": ["a tag"]},
        {**RECORD, "result": "[" * 100_000},
    ],
)
async def test_a_result_that_names_code_is_refused(tmp_path: Path, record: dict[str, Any]) -> None:
    """Whoever writes to the lake could otherwise run code in the processes of all others."""
    lake = Lake.open(str(tmp_path))
    path = tmp_path / ".results" / result_name("tagged", "key")
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(record))
    with pytest.raises(InfrastructureError, match="would run code that is not Durabench's"):
        await result_of(tagged, lake)


@pytest.mark.parametrize("serializer", [JSONSerializer().model_dump(), {"type": "json"}])
async def test_a_recorded_result_is_read(tmp_path: Path, serializer: dict[str, Any]) -> None:
    """Prefect writes all settings of its serializer, and Durabench itself only the type."""
    lake = Lake.open(str(tmp_path))
    path = tmp_path / ".results" / result_name("tagged", "key")
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({**RECORD, "metadata": {"serializer": serializer}}))

    @flow
    async def reading() -> list[str]:
        return await result_of(tagged, lake)

    assert await reading() == ["a tag"]


@pytest.mark.parametrize(
    "content",
    [
        "",
        json.dumps(RECORD)[:-9],
        json.dumps({**RECORD, "result": json.dumps({"__exc_type__": "os.x", "message": "x"})}),
    ],
)
async def test_a_recorded_error_or_damage_is_no_result(tmp_path: Path, content: str) -> None:
    """The work is done again. Prefect records the error of a run that failed."""
    lake = Lake.open(str(tmp_path))
    path = tmp_path / ".results" / result_name("tagged", "key")
    path.parent.mkdir(exist_ok=True)
    path.write_text(content)

    @flow
    async def reading() -> list[str]:
        return await result_of(tagged, lake)

    assert await reading() == []


@pytest.mark.full
async def test_cells_store_results_on_a_server_without_block_types() -> None:
    """Each of them finds no block type on the server, and only one of them can register it."""
    with ObjectStore() as store:
        lakes = [Lake.existing(store.create_lake()) for _ in range(8)]
        async with get_client() as client:
            await _forget_block_type(client)
            made = await asyncio.gather(*(store_in_lake(tagged, lake) for lake in lakes + lakes))
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
