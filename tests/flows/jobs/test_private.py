"""Jobs on private repositories, and in the images that repositories declare."""

from pathlib import Path

import pytest

from eval.errors import DatasetError
from flows.jobs.job import job
from flows.storage.lake import Lake
from tests.flows.jobs.conftest import NAME, REPAIR, request, row_of
from tests.servers.forge import Forge
from tests.servers.ssh_server import SshServer

pytestmark = [pytest.mark.usefixtures("prefect"), pytest.mark.slow]


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
