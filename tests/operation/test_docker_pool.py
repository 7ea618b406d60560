"""Cells and shards that run in containers of a Docker work pool, next to those of instances."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eval.base_image import BASE_IMAGE
from eval.instances import load
from tests.operation.running import (
    QUICK,
    begin,
    expect,
    resolved,
    states,
)
from tests.servers.prefect_server import ROOT, PrefectServer, make_ready

pytestmark = [
    pytest.mark.full,
    pytest.mark.docker,
    pytest.mark.slow,
    pytest.mark.timeout(600),
]

TEMPLATE = ROOT / "flows" / "operation" / "work_pools" / "docker.json"


def template(lake: Path) -> dict[str, Any]:
    """Return the template with this checkout and interpreter mounted, in place of a built image."""
    content: dict[str, Any] = json.loads(TEMPLATE.read_text())
    defaults = {
        "image": BASE_IMAGE,
        "network_mode": "host",
        "command": f"{Path(sys.executable).with_name('prefect')} flow-run execute",
        "volumes": [
            *(f"{path}:{path}:ro" for path in {str(ROOT), sys.prefix, sys.base_prefix}),
            f"{lake}:{lake}",
            "/var/run/docker.sock:/var/run/docker.sock",
        ],
        "env": {"DURABENCH_LAKE": str(lake)},
    }
    for name, value in defaults.items():
        content["variables"]["properties"][name]["default"] = value
    return content


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, docker_client: Any) -> Iterator[PrefectServer]:
    """Yield a server whose work pool `durabench` runs Docker containers."""
    with PrefectServer(tmp_path_factory.mktemp("installation")) as made:
        made.environment.update(QUICK)
        path = made.folder / "docker.json"
        path.write_text(json.dumps(template(made.folder / "lake")))
        made.prefect(
            *["work-pool", "create", "durabench", "--type", "docker"],
            *["--base-job-template", str(path)],
        )
        make_ready(made)
        yield made


def test_the_cells_of_a_benchmark_run_in_containers(server: PrefectServer) -> None:
    """They share the container of a shard."""
    changes = {
        "name": "contained-too",
        "environment": "docker",
        "select": {"ids": [load("bundled")[0].instance_id]},
        "arms": [{"name": "gold", "agent": "gold"}, {"name": "null", "agent": "null"}],
        "concurrency": 2,
    }
    with server.worker():
        expect(server, begin(server, **changes))
    assert states(server, "contained-too") == ["COMPLETED"]
    assert resolved(server, "contained-too") == {"gold": 1, "null": 0}
