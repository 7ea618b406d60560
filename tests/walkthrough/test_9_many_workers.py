"""Many workers: the cells of an experiment in flow runs on a Prefect server.

flows/operation/README.md explains the same commands, with PostgreSQL and an object store.
"""

from pathlib import Path

import pytest

from flows.storage import report_files
from flows.storage.lake import Lake
from tests.servers.prefect_server import PrefectServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.full]

DECLARED = """
name: apart
environment: host
execution: distributed
select: {sample: 1}
arms:
  - {name: gold, agent: gold}
"""


def test_a_worker_runs_the_cells_of_an_experiment(tmp_path: Path) -> None:
    """`run` begins a few flow runs of `shard/shard`, and any worker of the pool picks them up. They
    take the cells from a queue. The results equal those of a run in one process."""
    (tmp_path / "apart.yaml").write_text(DECLARED)
    with PrefectServer(tmp_path / "installation") as server:
        prepared = server.run("durabench", "setup")
        assert prepared.returncode == 0, prepared.stderr
        server.prefect("deploy", "--name", "shard")
        with server.worker(PREFECT_WORKER_QUERY_SECONDS="1"):
            done = server.run("durabench", "run", str(tmp_path / "apart.yaml"))
        assert done.returncode == 0, done.stderr
        runs = server.post("/flow_runs/filter", {"flows": {"name": {"any_": ["shard"]}}})
    assert [run["state"]["type"] for run in runs] == ["COMPLETED"]
    built = report_files.read(Lake.existing(server.folder / "lake"), "apart")
    assert [(arm.name, arm.resolved, arm.planned) for arm in built.arms] == [("gold", 1, 1)]
