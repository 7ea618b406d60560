"""The compose file, used as the page describes: server, database, object store and workers."""

import ipaddress
import json
import os
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from eval.base_image import BASE_IMAGE, ensure_base
from eval.instances import load
from tests.operation.running import (
    declared,
    order,
    state,
    wait_until,
)
from tests.servers.prefect_server import CREDENTIALS, ROOT, PrefectApi

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.full, pytest.mark.timeout(1500)]

FOLDER = ROOT / "flows" / "operation"
STAND_INS = Path(__file__).with_name("stand_ins")
CERTIFICATES = Path("/etc/ssl/certs")
"""Debian's folder. The built images trust the same certificate authorities as this machine."""

BUILD, UP, DOCTOR, ORDER, UP_ELSEWHERE = re.findall(
    r"^\$ (.*docker (?:build|compose).*)$", (FOLDER / "README.md").read_text(), re.MULTILINE
)
TOKEN = "a-token-of-the-service"
ENV = (
    f"PREFECT_PASSWORD={CREDENTIALS.partition(':')[2]}\n"
    "POSTGRES_PASSWORD=p4ss\nAWS_ACCESS_KEY_ID=tester\nAWS_SECRET_ACCESS_KEY=s3cret\n"
    f"SERVICE_TOKEN={TOKEN}\nOPENAI_API_KEY=throw-away\n"
)


@dataclass(frozen=True)
class Team:
    """An environment for the page's commands, and the server that they start."""

    name: str
    environment: dict[str, str]

    def type(self, command: str, *, folder: Path = FOLDER, project: str = "") -> str:
        """Run a command, check that it succeeds, and return its output."""
        chosen = {"COMPOSE_PROJECT_NAME": f"{self.name}{project}"}
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=folder,
            env={**os.environ, **self.environment, **chosen},
            capture_output=True,
            text=True,
            check=False,
            timeout=900,
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout

    @property
    def server(self) -> PrefectApi:
        return PrefectApi(f"http://{self.environment['ADDRESS']}:4200/api")

    def complete(self, run: str) -> None:
        """Wait for the end of a flow run and check that it is completed."""
        wait_until(lambda: state(self.server, run) in {"COMPLETED", "FAILED", "CRASHED"}, 400)
        logs = self.server.post("/logs/filter", {"logs": {"flow_run_id": {"any_": [run]}}})
        assert state(self.server, run) == "COMPLETED", [line["message"] for line in logs]


def _gateway(network: dict[str, str]) -> str:
    """Return the address of the host in a network; a new daemon only states the subnet."""
    return network.get("Gateway") or str(ipaddress.ip_network(network["Subnet"])[1])


@pytest.fixture
def team(tmp_path: Path, docker_client: Any) -> Iterator[Team]:
    """Build the images and write `.env`. Remove everything at the end."""
    if subprocess.run(
        ["docker", "compose", "version"], capture_output=True, check=False
    ).returncode:
        pytest.skip("no docker compose: Debian has it as docker-compose from release 13 on")
    ensure_base(docker_client)
    name = f"durabench-test-{uuid.uuid4().hex[:8]}"
    (tmp_path / ".env").write_text(ENV)
    made = Team(
        name,
        {
            "COMPOSE_FILE": f"{FOLDER / 'compose.yaml'}:{STAND_INS / 'compose.yaml'}",
            "COMPOSE_ENV_FILES": str(tmp_path / ".env"),
            "IMAGE": name,
            "DATABASE_IMAGE": f"{name}-postgres",
            "BASE_IMAGE": BASE_IMAGE,
            "ADDRESS": _gateway(docker_client.networks.get("bridge").attrs["IPAM"]["Config"][0]),
            "PYTHON": sys.executable,
            "PREFIX": sys.prefix,
            "BASE_PREFIX": sys.base_prefix,
        },
    )
    trusting = f"docker build --build-arg BASE={BASE_IMAGE} --tag {name}-base"
    on_that = f"docker build --build-arg BASE={name}-base --network host --tag {name}"
    try:
        made.type(f"{trusting} --file {STAND_INS / 'base' / 'Dockerfile'} {CERTIFICATES}")
        made.type(f"{on_that}-postgres {STAND_INS / 'postgres'}")
        made.type(BUILD.replace("docker build --tag durabench", on_that), folder=ROOT)
        yield made
    finally:
        for project in ("-far", ""):
            made.type("docker compose down --volumes --timeout 5", project=project)
        made.type(f"docker image rm --force {name} {name}-postgres {name}-base")


def check_service(team: Team) -> None:
    """Wait until the service reaches Prefect and the lake. Check that it wants its token."""
    url = f"http://{team.environment['ADDRESS']}:8200"

    def is_healthy() -> bool:
        try:
            return httpx.get(f"{url}/health", timeout=30).is_success
        except httpx.TransportError:
            return False

    wait_until(is_healthy, 180)
    assert httpx.get(f"{url}/jobs", timeout=30).status_code == 401
    allowed = httpx.get(f"{url}/jobs", headers={"Authorization": f"Bearer {TOKEN}"}, timeout=30)
    assert allowed.json() == {"total": 0, "jobs": []}


def check_walls(team: Team) -> None:
    """Check from another container of the network that no service answers without credentials.

    The store is not tried: its stand-in asks for no key.
    """
    scan = (STAND_INS.parent / "scan.py").read_text()
    command = ["docker", "run", "--rm", "--interactive", "--network", f"{team.name}_default"]
    found = subprocess.run(
        [*command, BASE_IMAGE, "python", "-"],
        input=scan,
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(found.stdout) == {
        "database": "asks for a password",
        "GET server:4200/api/health": 200,
        "GET server:4200/api/admin/settings": 401,
        "POST server:4200/api/flow_runs/filter": 401,
        "POST server:4200/api/deployments/filter": 401,
        "POST server:4200/api/block_documents/filter": 401,
        "GET service:8200/health": 200,
        "GET service:8200/jobs": 401,
        "POST service:8200/jobs": 401,
    }


def test_the_commands_of_the_page_start_a_server_and_workers(team: Team) -> None:
    """Workers of the compose file run the smoke benchmark, the service answers, and a
    worker elsewhere runs a cell."""
    team.type(UP)
    check_service(team)
    check_walls(team)
    found = team.type(DOCTOR)
    assert "ok       lake s3://durabench/lake" in found
    assert "SQLite" not in found
    [run] = re.findall(r"UUID: (\S+)", team.type(ORDER))
    team.complete(run)
    keys = [made["key"] for made in team.server.post("/artifacts/filter", {})]
    assert any(key.startswith("report-smoke") for key in keys)

    team.type("docker compose stop worker")
    far = UP_ELSEWHERE.replace("10.0.0.5", team.environment["ADDRESS"])
    team.type(far.replace("worker=4", "worker=1"), project="-far")
    instance = load("bundled")[0].instance_id
    content = declared(name="far", environment="docker", select={"ids": [instance]})
    parameters = {"experiment": content, "instance_id": instance, "arm": "mini"}
    team.complete(order(team.server, "solve", parameters))
