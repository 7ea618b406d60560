"""A search for the token of the forge in containers of a pipeline, and in all that it leaves."""

import asyncio
import base64
import io
import json
import tarfile
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from docker.errors import APIError
from prefect.settings import PREFECT_SERVER_DATABASE_CONNECTION_URL

from agent.workspaces.container import WORKSPACE_LABEL
from flows.jobs import runs
from flows.jobs.pipeline import pipeline as run_pipeline
from flows.storage.lake import Lake
from tests.flows.jobs.conftest import NAME, REPAIR, pipeline, step
from tests.servers.forge import Forge

pytestmark = [
    pytest.mark.usefixtures("prefect"),
    pytest.mark.docker,
    pytest.mark.slow,
    pytest.mark.full,
    pytest.mark.timeout(600),
]

WAIT = "touch /tmp/begun; until test -e /tmp/go; do sleep 0.2; done"
"""The work of a step until it was searched."""

SEARCH = "cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline; env; git config --list; git remote -v"

Found = Callable[[bytes], bool]


def forms(token: str) -> list[bytes]:
    """Return the token as it is, and as HTTP sends it."""
    basic = base64.b64encode(f"x-access-token:{token}".encode())
    return [token.encode(), basic]


def searched(container: Any, is_found: Found) -> list[str]:
    """Return the places of a container where the token is."""
    said = container.exec_run(["sh", "-c", SEARCH]).output
    assert b"PATH=" in said, "the search ran"
    places = ["a process"] if is_found(said) else []
    container.reload()
    places += ["docker inspect"] if is_found(json.dumps(container.attrs).encode()) else []
    whole = io.BytesIO(b"".join(container.export()))
    with tarfile.open(fileobj=whole) as files:
        for member in files:
            content = files.extractfile(member) if member.isfile() else None
            if content is not None and is_found(content.read()):
                places.append(member.name)
    return places


def begun(client: Any, known: set[str]) -> list[Any]:
    """Return the containers of steps that wait, without containers of other tests."""
    labelled = client.containers.list(filters={"label": WORKSPACE_LABEL}, ignore_removed=True)
    return [each for each in labelled if each.id not in known and waits(each)]


def waits(container: Any) -> bool:
    """Return True if the step of a container waits; False if the container is being removed."""
    try:
        return not container.exec_run(["test", "-e", "/tmp/begun"]).exit_code
    except APIError as error:
        if error.status_code in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
            return False
        raise


async def test_no_container_of_a_pipeline_has_the_token(
    forge: Forge, lake_path: str, tmp_path: Path, docker_client: Any
) -> None:
    """Neither processes nor files nor the settings of containers, nor the journal, the lake, the
    mirror, Prefect's database and the logs: while it works, and afterwards."""
    forge.is_private = True

    def is_found(content: bytes) -> bool:
        return any(form in content for form in forms(forge.token))

    known = {each.id for each in docker_client.containers.list(ignore_removed=True)}
    asked = pipeline(
        step("fix", f"{WAIT}; {REPAIR}"),
        step("notes", f"{WAIT}; echo '# Notes' >NOTES.md", "fix"),
        environment="docker",
        image="durabench/base:bookworm",
        verify="none",
    )
    running = asyncio.create_task(run_pipeline(asked, lake_path))
    searches: list[list[str]] = []
    while not running.done():
        await asyncio.sleep(0.5)
        for container in await asyncio.to_thread(begun, docker_client, known):
            searches.append(await asyncio.to_thread(searched, container, is_found))
            known.add(container.id)
            container.exec_run(["touch", "/tmp/go"])
    run = await running
    assert searches == [[], []]
    lake = Lake.existing(lake_path)
    image = {row["image"] for row in lake.all_shared("jobs")}
    for name in sorted(image, reverse=True):
        docker_client.images.remove(name, force=True)
    row = runs.find(lake, run)
    assert (row["state"], len(forge.pulls[NAME])) == ("done", 1)
    database = Path(str(PREFECT_SERVER_DATABASE_CONNECTION_URL.value()).partition("///")[2])
    left = [tmp_path, Path(lake_path), database.parent]
    files = {path for folder in left for path in folder.rglob("*") if path.is_file()}
    assert {database, Path(lake_path) / "journal.sqlite"} < files
    assert [path for path in files if is_found(path.read_bytes())] == []
    assert is_found(f"Authorization: Bearer {forge.token}".encode())
