"""Shards on two machines, each with its own network and Docker daemon, one of which is lost."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agent.workspaces import ownership
from eval.instances import load
from eval.types import Instance
from flows.storage.journals import open_journal
from flows.storage.lake import Lake
from tests.operation.running import (
    begin,
    expect,
    kill_all,
    online,
    resolved,
    wait_until,
)
from tests.operation.storms import arms, expect_continuation
from tests.servers.cable import Cable
from tests.servers.machine import GATEWAY, LOOPBACK, Machine
from tests.servers.postgres import PostgresServer
from tests.servers.prefect_server import PrefectServer, command_line
from tests.servers.simulated_server import Simulation

pytestmark = [
    pytest.mark.docker,
    pytest.mark.full,
    pytest.mark.slow,
    pytest.mark.timeout(1200),
]

CELLS, CELLS_EACH = 4, 2


def chosen() -> list[Instance]:
    return load("bundled")[:CELLS]


@pytest.fixture
def machines(
    on_postgres: PrefectServer,
    restartable: PostgresServer,
    api_base: str,
    docker_client: Any,
    tmp_path: Path,
) -> Iterator[list[Machine]]:
    """Yield two machines with all images, and with a worker that runs one shard."""
    worker = command_line("prefect", "worker", "start", "--pool", "durabench", "--limit", "1")
    with ExitStack() as stack:
        made = [stack.enter_context(Machine(tmp_path / str(number))) for number in (1, 2)]
        for port in (on_postgres.port, restartable.port, int(api_base.split(":")[2][:-3])):
            stack.callback(Cable(port, at=(GATEWAY, port)).cut)
        names = set()
        for machine in made:
            machine.daemon.load(*{instance.image for instance in chosen()})
            names.add(name := f"{machine.folder.parent.name}-{machine.folder.name}")
            machine.begin(
                [*worker, "--name", name], on_postgres.environment, machine.folder / "worker.log"
            )
        # Killed workers of other tests count as online for a while, and would get shards.
        wait_until(lambda: online(on_postgres) == names)
        yield made


def containers(machine: Machine) -> dict[str, str]:
    """Return the names of the containers on a machine, keyed by attempt."""
    client = machine.daemon.client()
    try:
        found = client.containers.list(filters={"label": ownership.ATTEMPT}, ignore_removed=True)
        return {each.labels[ownership.ATTEMPT]: each.name for each in found}
    finally:
        client.close()


@pytest.mark.parametrize("lose", [Machine.power_off, Machine.unplug], ids=["off", "unplugged"])
def test_the_cells_of_a_lost_machine_continue_on_another(
    lose: Callable[[Machine], None],
    machines: list[Machine],
    on_postgres: PrefectServer,
    simulation: Simulation,
    api_base: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They continue within 35 s, and only calls in flight are repeated."""
    for name in ("DURABENCH_DATABASE_URL", "DURABENCH_LAKE"):
        monkeypatch.setenv(name, on_postgres.environment[name])
    lake = Lake.existing()
    journal = open_journal(lake)
    first, second = machines
    name = f"lost-by-{lose.__name__}"
    declared = {
        "environment": "docker",
        "select": {"ids": [instance.instance_id for instance in chosen()]},
        "arms": arms(api_base.replace(LOOPBACK, GATEWAY))[-1:],
        "concurrency": 2 * CELLS_EACH,
    }
    simulation.latency_s = 10.0  # so that no cell ends before both machines work
    running = begin(on_postgres, name=name, **declared)
    try:
        wait_until(lambda: len(containers(first)) == len(containers(second)) == CELLS_EACH, 300)
        taken = containers(first)
        lost = journal.holders(list(taken))
        assert lost.keys() == taken.keys()
        lost_at = datetime.now(UTC)
        lose(first)
        simulation.latency_s = 0.0
        expect_continuation(journal, lost, lost_at)
        expect(on_postgres, running)
    finally:
        kill_all(running)
    assert resolved(on_postgres, name) == {"skill-1.0": CELLS}
    assert sum(simulation.calls.values()) - len(simulation.calls) <= CELLS_EACH
    rows = lake.rows("attempts", name)
    if lose is Machine.unplug:
        first.plug_in()
        wait_until(lambda: not containers(first), 300)
        assert lake.rows("attempts", name) == rows
    assert containers(second) == {}
