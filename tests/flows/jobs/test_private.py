"""Jobs on private repositories, and in the images that repositories declare."""

from pathlib import Path
from typing import Any

import pytest

from eval.errors import DatasetError
from flows.jobs.job import job
from flows.storage.lake import Lake, Row
from tests.flows.jobs.conftest import NAME, REPAIR, request
from tests.servers.forge import Forge
from tests.servers.ssh_server import SshServer

pytestmark = [pytest.mark.usefixtures("prefect"), pytest.mark.slow]


def row_of(lake_path: str) -> Row:
    """Return the row of the lake's only job."""
    [row] = Lake.existing(lake_path).all_shared("jobs")
    return row


@pytest.mark.full
async def test_an_ssh_agent_opens_a_repository_and_pushes(
    forge: Forge, lake_path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the agent's key, one line says so, and the lake has no job."""
    with SshServer(tmp_path / "ssh") as server:
        source = f"{server.url}{forge.path(NAME)}"
        asked = request(REPAIR, source=source, publish="branch")
        with server.agent() as variables:
            for name, value in server.stranger().items():
                monkeypatch.setenv(name, value)
            with pytest.raises(DatasetError, match="does not let this user in"):
                await job(asked, lake_path)
            assert Lake.existing(lake_path).all_shared("jobs") == []
            for name, value in variables.items():
                monkeypatch.setenv(name, value)
            await job(asked, lake_path)
    row = row_of(lake_path)
    assert (row["state"], row["verdict"], row["repo"]) == ("done", "nothing_broke", NAME)
    assert forge.branches(NAME)[row["branch"]] == row["commit"]
    assert forge.requests == []


@pytest.mark.full
@pytest.mark.docker
@pytest.mark.parametrize(
    "declared",
    [
        {"Dockerfile": "FROM durabench/base:bookworm\nRUN echo own >/own\n"},
        {
            ".devcontainer/devcontainer.json": '{"build": {"dockerfile": "Its"}, // why not\n'
            '"postCreateCommand": ["sh", "-c", "cat calc.py && echo own >>/own"],}',
            ".devcontainer/Its": "FROM durabench/base:bookworm\nRUN touch /own\n",
        },
    ],
    ids=["dockerfile", "devcontainer"],
)
async def test_a_job_runs_in_the_image_that_its_repository_declares(
    declared: dict[str, str], forge: Forge, lake_path: str, docker_client: Any
) -> None:
    """The arm and both runs of the tests are in it, and none of them can reach a network."""
    forge.commit(NAME, declared, "image")
    forge.commit(NAME, {"test_own.py": OWN_TEST}, "needs the image")
    await job(request(f"{REPAIR}; cat /own >own.txt", environment="docker"), lake_path)
    row = row_of(lake_path)
    for image in (row["image"], f"{row['image']}-own"):
        docker_client.images.remove(image, force=True)
    reached = (
        "changed files that tests reach, by imports and names: 1 of 1, with 2 of 2 changed lines"
    )
    assert (row["verdict"], row["reason"]) == ("nothing_broke", f"3 tests pass; {reached}")
    assert "+own" in row["patch"]


OWN_TEST = """\
import socket
import pytest

def test_own():
    assert open("/own").read() == "own\\n"

def test_no_network():
    with pytest.raises(OSError):
        socket.create_connection(("192.0.2.1", 80), timeout=5)
"""
