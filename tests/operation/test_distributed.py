"""An experiment whose cells are flow runs that workers pick up, on a real Prefect server."""

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows import reporting
from flows.lake import Lake
from reports.types import Report
from tests.operation.installation import Installation, installation, kill_all

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """One server and its deployments for all tests; each begins with the workers it needs."""
    with installation(tmp_path_factory.mktemp("installation")) as made:
        yield made


@pytest.fixture
def workers(there: Installation) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Two workers."""
    started = [there.start_worker() for _ in range(2)]
    yield started
    for worker in started:
        kill_all(worker)


def report(there: Installation, name: str) -> Report:
    return reporting.read(Lake.existing(there.lake), name)


def resolved(there: Installation, name: str) -> dict[str, int]:
    return {arm.name: arm.resolved for arm in report(there, name).arms}


def flow_runs(there: Installation, name: str) -> list[str]:
    """The states of the cells' flow runs."""
    text = there.run("prefect", "flow-run", "ls", "--limit", "200", "--output", "json")
    rows = json.loads(text[text.index("[") :])
    return [row["state"]["type"] for row in rows if f"experiment:{name}" in row["tags"]]


@pytest.mark.usefixtures("workers")
def test_workers_come_to_what_one_process_comes_to(there: Installation) -> None:
    """Same cells, same outcomes, same costs; the same again runs nothing."""
    path = there.experiment(name="apart", repeats=2)
    printed = there.run("durabench", "run", str(path), "--lake", str(there.lake))
    assert "[8/8]" in printed
    alone = there.experiment(name="alone", execution="local", repeats=2)
    there.run("durabench", "run", str(alone), "--lake", str(there.lake))
    apart, alone_arms = report(there, "apart").arms, report(there, "alone").arms
    for one, other in zip(apart, alone_arms, strict=True):
        assert (one.name, one.resolved, one.planned) == (other.name, other.resolved, other.planned)
        assert one.cost.usd == pytest.approx(other.cost.usd)
    before = flow_runs(there, "apart")
    assert before == ["COMPLETED"] * 8
    there.run("durabench", "run", str(path), "--lake", str(there.lake))
    assert flow_runs(there, "apart") == before


def test_a_benchmark_that_died_finds_its_cells_again(
    there: Installation, workers: list[subprocess.Popen[bytes]]
) -> None:
    """The one that is started after it begins no second flow run of any cell."""
    path = there.experiment(name="found")
    first = there.begin("durabench", "run", str(path), "--lake", str(there.lake))
    deadline = time.monotonic() + 120
    while not flow_runs(there, "found"):
        assert time.monotonic() < deadline, there.output(first)
        time.sleep(0.5)
    kill_all(first)
    there.run("durabench", "run", str(path), "--lake", str(there.lake))
    assert sorted(flow_runs(there, "found")) == ["COMPLETED"] * 4
    assert resolved(there, "found") == {"mini": 2, "null": 0}


def test_without_a_deployment_the_run_says_what_to_do(tmp_path: Path) -> None:
    """One line, and the exit code of wrong usage."""
    made = Installation(tmp_path)
    try:
        made.start_server()
        path = made.experiment()
        printed = made.run("durabench", "run", str(path), "--lake", str(made.lake), code=2)
    finally:
        made.close()
    assert "no deployment solve/solve" in printed
    assert "prefect deploy --all" in printed
