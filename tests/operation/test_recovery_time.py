"""Time until cells continue when a worker, the Prefect server or the database is lost."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime

import pytest

from flows.storage.journals import open_journal
from flows.storage.lake import Lake
from tests.operation.running import (
    begin,
    expect,
    kill_all,
    online,
    resolved,
    start_worker,
    wait_until,
)
from tests.operation.storms import arms, expect_continuation
from tests.servers.postgres import PostgresServer
from tests.servers.prefect_server import PrefectServer
from tests.servers.simulated_server import Simulation

pytestmark = [pytest.mark.full, pytest.mark.slow, pytest.mark.timeout(900)]

CELLS, AT_ONCE, MANY = 15, 2, 6

AFTER_A_SERVER_S = 10.0
"""Time after which a new cell has begun, once the server answers again."""

AWAY_S = 5.0


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


def test_cells_of_a_killed_worker_continue_soon(
    on_postgres: PrefectServer,
    simulation: Simulation,
    api_base: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They continue within 35 s, and only calls in flight are repeated."""
    for variable in ("DURABENCH_DATABASE_URL", "DURABENCH_LAKE"):
        monkeypatch.setenv(variable, on_postgres.environment[variable])
    changes = {"arms": arms(api_base)[-1:], "select": {"sample": CELLS}, "concurrency": MANY}
    with ExitStack() as stack:
        first = start_worker(on_postgres)
        stack.callback(kill_all, first)
        running = begin(on_postgres, name="killed", **changes)
        stack.callback(kill_all, running)
        wait_until(lambda: instances(simulation))
        known = online(on_postgres)
        stack.callback(kill_all, start_worker(on_postgres))
        wait_until(lambda: online(on_postgres) - known)
        journal = open_journal(Lake.existing())
        held = journal.holders([each.attempt.attempt_id for each in journal.progress("killed")])
        lost_at = datetime.now(UTC)
        kill_all(first)
        lost = {name: by for name, by in held.items() if journal.outcome(name) is None}
        assert lost
        expect_continuation(journal, lost, lost_at)
        expect(on_postgres, running)
    assert resolved(on_postgres, "killed") == {"skill-1.0": CELLS}
    assert sum(simulation.calls.values()) - len(simulation.calls) <= MANY
