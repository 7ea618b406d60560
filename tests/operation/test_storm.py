"""Everything that can fail around three workers, within a minute and a half."""

import signal
import subprocess
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from tests.operation.running import (
    begin,
    done,
    expect,
    kill_all,
    kill_below,
    online,
    start_worker,
    wait_until,
)
from tests.operation.storms import SKILLS, arms, results
from tests.servers.postgres import PostgresServer
from tests.servers.prefect_server import PrefectServer
from tests.servers.simulated_server import Simulation

pytestmark = [pytest.mark.full, pytest.mark.slow, pytest.mark.timeout(2400)]

SKILLED = [*SKILLS, "0.35"]
CELLS = 75
"""Five arms on all fifteen bundled instances."""
CONCURRENCY = 9

EVERY_S = 10.0
KILLS = 6
"""Kills of everything below one worker, one each ten seconds."""

RUNS = 3
"""A worker with wrong settings may refuse so many shards that a run ends. Then it is run again."""


class Crew:
    """Three workers, each with a service manager, and what happens to them."""

    def __init__(self, server: PrefectServer) -> None:
        self._server = server
        self._workers = [start_worker(server) for _ in range(3)]

    def kill_below(self, number: int) -> None:
        """Kill all shards of one worker, with all their processes. The worker stays."""
        kill_below(self._workers[number % 3])

    def stop(self, number: int) -> None:
        """Stop a worker as a service manager does, and start another."""
        stopped, self._workers[number % 3] = self._workers[number % 3], start_worker(self._server)
        stopped.send_signal(signal.SIGTERM)
        try:
            stopped.wait(timeout=60)
        finally:
            kill_all(stopped)

    def restart_ended(self) -> None:
        """Start workers again that have given up, as Prefect's do without a server."""
        self._workers = [
            start_worker(self._server) if each.poll() is not None else each
            for each in self._workers
        ]

    def sees_the_end(self, running: "subprocess.Popen[bytes]") -> bool:
        """Keep the workers running. Return True if a program has ended."""
        self.restart_ended()
        return running.poll() is not None

    def end(self) -> None:
        for worker in self._workers:
            kill_all(worker)


def test_nothing_changes_but_the_bill(
    on_postgres: PrefectServer,
    restartable: PostgresServer,
    simulation: Simulation,
    api_base: str,
    tmp_path: Path,
) -> None:
    """Shards are killed, both servers restarted, workers stopped, and one worker has another
    journal. Every cell has the result of a run in one process, and at most the calls in flight at
    each kill are repeated."""
    declared = {
        "arms": arms(api_base, SKILLED),
        "select": {"sample": CELLS // len(SKILLED)},
        "concurrency": CONCURRENCY,
    }
    crew = Crew(on_postgres)
    with ExitStack() as stack:
        stack.callback(crew.end)
        running = begin(on_postgres, name="storm", **declared)
        stack.callback(kill_all, running)
        wait_until(lambda: done(on_postgres, "storm") > 0, 600)
        with on_postgres.worker(
            *["--limit", "1", "--name", "misplaced"],
            DURABENCH_DATABASE_URL=f"sqlite:///{tmp_path / 'other.sqlite'}",
        ):
            wait_until(lambda: "misplaced" in online(on_postgres))
            assert done(on_postgres, "storm") < CELLS
            began_at = time.monotonic()
            for kill in range(KILLS):
                time.sleep(max(0.0, began_at + (kill + 1) * EVERY_S - time.monotonic()))
                crew.kill_below(kill)
                if kill == 1:
                    restartable.restart(mode="immediate")
                elif kill == 2:
                    on_postgres.stop(signal.SIGKILL)
                    on_postgres.start()
                elif kill == 3:
                    crew.stop(kill + 1)
                crew.restart_ended()
        for _ in range(RUNS):
            wait_until(partial(crew.sees_the_end, running), 900)
            if running.returncode == 0:
                break
            running = begin(on_postgres, name="storm", **declared)
            stack.callback(kill_all, running)
        expect(on_postgres, running)
    assert not (tmp_path / "other.sqlite").exists()
    after_storm, asked = results(on_postgres, "storm", SKILLED), simulation.calls.copy()
    simulation.calls.clear()
    simulation.latency_s = 0.0
    expect(on_postgres, begin(on_postgres, name="no-storm", execution="local", **declared))
    assert len(after_storm) == CELLS
    assert after_storm == results(on_postgres, "no-storm", SKILLED)
    assert asked.keys() == simulation.calls.keys()
    assert asked.total() - simulation.calls.total() <= KILLS * CONCURRENCY
