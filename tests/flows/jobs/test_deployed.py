"""A definition as a deployment, and its runs as flow runs of a worker."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from prefect.blocks.system import Secret
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows.jobs.request import FORGE, TOKEN
from flows.storage.images import CACHE_VARIABLE
from tests.flows.jobs.conftest import NAME, REPAIR, pipeline, step
from tests.operation.running import wait_until
from tests.servers.forge import Forge
from tests.servers.prefect_server import PrefectServer

pytestmark = [pytest.mark.slow, pytest.mark.full, pytest.mark.timeout(900)]


def runs_in(server: PrefectServer, state: str) -> list[dict[str, Any]]:
    """Return the flow runs of pipelines in a state. None of them may have failed."""
    found = server.post("/flow_runs/filter", {"flows": {"name": {"any_": ["pipeline"]}}})
    lost = [
        run["state"]["message"] for run in found if run["state"]["type"] in ("FAILED", "CRASHED")
    ]
    assert lost == []
    return [run for run in found if run["state"]["type"] == state]


def said(server: PrefectServer, *command: str) -> str:
    """Return what a command prints. It has to succeed."""
    done = server.run("durabench", *command)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_a_deployed_pipeline_runs_twice_and_waits_for_approval(
    forge: Forge, prefect_server: PrefectServer, tmp_path: Path
) -> None:
    """Each order is a flow run with its own result, suspended until it is approved."""
    ours = {FORGE: forge.url, CACHE_VARIABLE: str(tmp_path / "cache"), TOKEN: ""}
    server = prefect_server.apart(tmp_path / "operator", **ours)
    said(server, "setup")
    server.prefect("deploy", "--name", "pipeline")
    with temporary_settings({PREFECT_API_URL: server.url}):
        Secret(value=forge.token).save("forge", overwrite=True)
    declared = pipeline(step("fix", REPAIR), approve=True, token_block="forge")
    file = tmp_path / "release.yaml"
    file.write_text(yaml.safe_dump(declared.model_dump(mode="json")))
    said(server, "pipeline", "deploy", str(file))
    for _ in range(2):
        said(server, "pipeline", "run", "release")
    with server.worker(PREFECT_WORKER_QUERY_SECONDS="1"):
        wait_until(lambda: len(runs_in(server, "PAUSED")) == 2, 300)
        assert forge.pulls[NAME] == []
        for run in runs_in(server, "PAUSED"):
            said(server, "job", "approve", run["id"].replace("-", "")[:10])
        wait_until(lambda: len(runs_in(server, "COMPLETED")) == 2, 300)
    assert len(forge.pulls[NAME]) == 2
    assert said(server, "pipeline", "runs", "release").count("done") == 2
    said(server, "pipeline", "delete", "release")
    gone = server.run("durabench", "pipeline", "run", "release")
    assert (gone.returncode, "no file, deployed pipeline or run 'release'" in gone.stderr) == (
        2,
        True,
    )
    homes = [server.folder, prefect_server.folder]
    files = [path for home in homes for path in home.rglob("*") if path.is_file()]
    assert [path for path in files if forge.token.encode() in path.read_bytes()] == []
