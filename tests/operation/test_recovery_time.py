"""Time until cells continue when the Prefect server or the database is lost."""

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.operation.running import (
    begin,
    expect,
    kill_all,
    resolved,
    start_worker,
    wait_until,
)
from tests.operation.storms import arms
from tests.servers.postgres import PostgresServer
from tests.servers.prefect_server import PrefectServer
from tests.servers.simulated_server import Simulation

pytestmark = [pytest.mark.full, pytest.mark.slow, pytest.mark.timeout(900)]

CELLS, AT_ONCE = 15, 2

AFTER_A_SERVER_S = 10.0
"""Time after which a new cell has begun, once the server answers again."""

AWAY_S = 5.0

STOPPED_S = 90.0
"""Time until a command without its server has ended after a signal."""

CUT_OFF_S = 30.0
"""Time until a command has ended after a second signal."""


def lose_the_server(server: PrefectServer, database: PostgresServer) -> None:
    server.stop(signal.SIGKILL)
    time.sleep(AWAY_S)
    server.start()


def lose_the_database(server: PrefectServer, database: PostgresServer) -> None:
    database.restart(away_s=AWAY_S, mode="immediate")


@pytest.fixture
def worker(on_postgres: PrefectServer) -> Iterator[None]:
    """Run a worker during the test."""
    running = start_worker(on_postgres)
    yield
    kill_all(running)


def instances(simulation: Simulation) -> set[str]:
    """Return the instances of which the model was asked."""
    return {instance for _, instance, _ in simulation.calls}


@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize("lose", [lose_the_server, lose_the_database], ids=["server", "database"])
def test_new_cells_begin_soon_after_an_outage(
    lose: Callable[[PrefectServer, PostgresServer], None],
    on_postgres: PrefectServer,
    restartable: PostgresServer,
    simulation: Simulation,
    api_base: str,
) -> None:
    """Cells in flight survive, a new one begins within 10 s, and no call is repeated."""
    name = lose.__name__.replace("_", "-")
    changes = {"arms": arms(api_base)[-1:], "select": {"sample": CELLS}, "concurrency": AT_ONCE}
    running = begin(on_postgres, name=name, **changes)
    try:
        wait_until(lambda: len(instances(simulation)) > AT_ONCE, every_s=0.1)
        lose(on_postgres, restartable)
        began, back_at = instances(simulation), time.monotonic()
        assert len(began) < CELLS
        wait_until(lambda: instances(simulation) > began, every_s=0.1)
        late_s = time.monotonic() - back_at
        print(f"a new cell began {late_s:.1f} s after the outage")
        assert late_s < AFTER_A_SERVER_S
        expect(on_postgres, running)
    finally:
        kill_all(running)
    assert resolved(on_postgres, name) == {"skill-1.0": CELLS}
    assert set(simulation.calls.values()) == {1}


def test_a_stop_without_its_server_ends(
    tmp_path: Path, simulation: Simulation, api_base: str
) -> None:
    """Prefect's own client would repeat each of its last requests for a minute."""
    with PrefectServer(tmp_path) as server:
        given = {"arms": arms(api_base)[-1:], "select": {"sample": CELLS}, "concurrency": AT_ONCE}
        running = begin(server, name="stopped", execution="local", **given)
        try:
            wait_until(lambda: len(simulation.calls) > AT_ONCE, every_s=0.1)
            server.stop(signal.SIGKILL)
            running.send_signal(signal.SIGINT)
            assert running.wait(STOPPED_S) == 3
            assert "the Prefect server was lost" in server.printed(running).splitlines()[-1]
        finally:
            kill_all(running)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_stops_at_once(
    number: signal.Signals, server: PrefectServer, simulation: Simulation, api_base: str
) -> None:
    """The calls in flight are cut off, and one line says how to continue."""
    given = {"arms": arms(api_base)[-1:], "select": {"sample": CELLS}, "concurrency": AT_ONCE}
    running = begin(server, name=f"twice-{number}", execution="local", **given)
    try:
        wait_until(lambda: len(simulation.calls) > AT_ONCE, every_s=0.1)
        simulation.latency_s = 60.0
        before = len(simulation.calls)
        wait_until(lambda: len(simulation.calls) > before, every_s=0.1)
        for lines in (1, 2):
            running.send_signal(number)
            wait_until(lambda n=lines: server.printed(running).count("stop") >= n)
        assert running.wait(CUT_OFF_S) == 3
        last = server.printed(running).splitlines()[-1]
        assert last == "durabench: stopped; run the same command again to continue"
        assert "Traceback" not in server.printed(running)
    finally:
        kill_all(running)
