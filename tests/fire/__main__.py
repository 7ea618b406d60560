"""`make fire`: random experiments, forks, chats and jobs under random faults, checked from outside.

A run with the same folder continues. `--round SEED` repeats one round, with `--keep 0,3` only those
of its faults.
"""

import argparse
import asyncio
import fcntl
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, temporary_settings

from flows.server.setup import SetupRequest, set_up
from tests.fire.rounds import (
    Outcome,
    Reference,
    Round,
    Services,
    measure_reference,
    run,
    shrink,
)
from tests.operation.running import QUICK
from tests.servers.docker_daemon import DockerDaemon
from tests.servers.postgres import PostgresServer
from tests.servers.prefect_server import CREDENTIALS, PrefectServer
from tests.timing import as_variables


def main() -> int:
    """Run rounds until enough faults have struck. Return 1 if a round was violated."""
    parser = argparse.ArgumentParser(prog="make fire", description=__doc__)
    parser.add_argument("--faults", type=int, default=60, help="number of faults")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first round")
    parser.add_argument("--folder", type=Path, default=Path("fire"), help="for results")
    parser.add_argument("--round", type=int, help="repeat the round of this seed")
    parser.add_argument("--keep", help="numbers of its faults, as 0,3; default all")
    parser.add_argument("--local", action="store_true", help="without a Prefect server")
    parser.add_argument("--processes", type=int, default=2, help="rounds at the same time")
    parser.add_argument("--name", default="fire", help="of the file of outcomes")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.processes > 1 and options.round is None:
        return share(options)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that servers and disks are removed
    with start_services(options.folder, with_prefect=not options.local) as services:
        fire = Fire(options.folder, services, options.name)
        if options.round is not None:
            round_ = Round.draw(options.round, services)
            if options.keep is not None:
                kept = [round_.faults[int(n)] for n in options.keep.split(",") if n]
                round_ = replace(round_, faults=tuple(kept))
            print(round_)
            outcome = fire.run(round_)
            print(outcome)
            return int(bool(outcome.violations))
        fire.run_until(options.faults, options.seed)
    print(fire.write_summary())
    return int(any(outcome["violations"] for outcome in fire.outcomes.values()))


class Fire:
    """Rounds, with their outcomes in a file of a folder."""

    def __init__(self, folder: Path, services: Services, name: str = "fire") -> None:
        self._folder, self._services = folder, services
        self._file = folder / f"{name}.json"
        self.outcomes: dict[str, Any] = {}
        """Outcomes by the seed of the round."""
        if self._file.exists():
            self.outcomes = json.loads(self._file.read_text())

    def run_until(self, faults: int, seed: int) -> None:
        """Run rounds until so many faults have struck in all."""
        while (struck := sum(len(one["struck"]) for one in self.outcomes.values())) < faults:
            if str(seed) not in self.outcomes:
                drawn = Round.draw(seed, self._services)
                round_ = replace(drawn, faults=drawn.faults[: faults - struck])
                started_at = time.monotonic()
                outcome = self.run(round_)
                took_s = time.monotonic() - started_at
                if outcome.violations:
                    print(f"round {seed} is shrunk:", *outcome.violations, sep="\n  ", flush=True)
                    small = shrink(round_, lambda one: bool(self.run(one).violations))
                    numbers = _find_positions(small.faults, round_.faults)
                    local = "" if self._services.prefect else " --local"
                    outcome.script = f"make fire ARGS='--round {seed} --keep {numbers}{local}'"
                self.outcomes[str(seed)] = {**asdict(outcome), "took_s": round(took_s, 1)}
                self.save()
                done = struck + len(outcome.struck)
                print(f"round {seed}: {done} of {faults} faults, {took_s:.0f} s", flush=True)
                if outcome.script:
                    print(f"  {outcome.script}", flush=True)
            seed += 1

    def save(self) -> None:
        """Write the outcomes of all rounds, with which a run with this folder continues."""
        self._file.write_text(json.dumps(self.outcomes, indent=1))

    def run(self, round_: Round) -> Outcome:
        """Run a round in a folder that goes if nothing is wrong."""
        folder = Path(tempfile.mkdtemp(prefix=f"round-{round_.seed}-", dir=self._folder))
        reference = self.read_reference(round_.kind, round_.place)
        outcome = run(round_, folder / "ground", self._services, reference)
        if not outcome.violations:
            shutil.rmtree(folder)
        return outcome

    def write_summary(self) -> str:
        """Write and return the figures of all rounds, as Markdown."""
        outcomes = self.outcomes.values()
        struck = Counter(name for outcome in outcomes for name in outcome["struck"])
        lines = [
            f"{struck.total()} faults in {len(outcomes)} rounds, "
            f"{sum(outcome['calls'] for outcome in outcomes)} charged calls, "
            f"{sum(outcome['repeated'] for outcome in outcomes)} of them again "
            f"({sum(outcome['allowed'] for outcome in outcomes)} could have been in flight), "
            f"{sum(bool(outcome['violations']) for outcome in outcomes)} rounds violated.",
            "",
            "| fault | times | median until the next call, s | longest, s |",
            "|---|---|---|---|",
        ]
        for name, times in struck.most_common():
            waits = [s for one in outcomes for s in one["recoveries_s"].get(name, [])] or [0.0]
            lines.append(f"| {name} | {times} | {median(waits):.1f} | {max(waits):.1f} |")
        text = "\n".join(lines)
        self._file.with_suffix(".md").write_text(f"{text}\n")
        return text

    def read_reference(self, kind: str, place: str) -> Reference:
        """Return the work without faults, which is measured once for the folder."""
        with (self._folder / f"reference-{kind}-{place}.pickle").open("a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            if content := file.read():
                found: Reference = pickle.loads(content)
                return found
            folder = Path(tempfile.mkdtemp(prefix="reference-", dir=self._folder))
            reference = measure_reference(folder / "ground", kind, place, self._services)
            file.write(pickle.dumps(reference))
            shutil.rmtree(folder)
            return reference


def share(options: argparse.Namespace) -> int:
    """Run rounds in several processes, the first one with a Prefect server. Add up their figures.

    Each has seeds that are far from those of the others.
    """
    processes, names = [], [f"fire-{number}" for number in range(options.processes)]
    for number, name in enumerate(names):
        faults, seed = -(-options.faults // options.processes), options.seed + number * 100_000
        command = [sys.executable, "-m", "tests.fire", "--processes", "1", "--name", name]
        command += ["--folder", str(options.folder), "--faults", str(faults), "--seed", str(seed)]
        command += ["--local"] if options.local or number else []
        processes.append(subprocess.Popen(command))
    codes = [process.wait() for process in processes]
    nothing = Services(None, None, None, can_mount=False, has_clock=False)
    whole = Fire(options.folder, nothing)
    for name in names:
        whole.outcomes |= Fire(options.folder, nothing, name).outcomes
    whole.save()
    print(whole.write_summary())
    return max(codes)


def _find_positions(few: tuple[str, ...], all_: tuple[str, ...]) -> str:
    """Return the positions of a subsequence."""
    positions, start = [], 0
    for name in few:
        start = all_.index(name, start)
        positions.append(str(start))
        start += 1
    return ",".join(positions)


@contextmanager
def start_services(folder: Path, *, with_prefect: bool) -> Iterator[Services]:
    """Start PostgreSQL and a Prefect server on it, as far as this machine has them."""
    postgres = server = docker = None
    with ExitStack() as stack:
        with suppress(pytest.skip.Exception):
            docker = DockerDaemon()
            stack.push(docker)
        with suppress(pytest.skip.Exception):
            postgres = stack.enter_context(PostgresServer())
            server = stack.enter_context(start_prefect(folder, postgres)) if with_prefect else None
        has_clock = shutil.which("cc") is not None
        yield Services(postgres, server, docker, os.geteuid() == 0, has_clock)


@contextmanager
def start_prefect(folder: Path, postgres: PostgresServer) -> Iterator[PrefectServer]:
    """Start a Prefect server with deployments of the flows."""
    home = Path(tempfile.mkdtemp(prefix="prefect-", dir=folder))
    url = postgres.create_database("asyncpg")
    with PrefectServer(home, PREFECT_API_DATABASE_CONNECTION_URL=url) as server:
        server.environment |= {**QUICK, **as_variables(pending_s=60.0)}
        server.environment["DURABENCH_DATABASE_URL"] = postgres.create_database()
        client = {PREFECT_API_URL: server.url, PREFECT_API_AUTH_STRING: CREDENTIALS}
        with temporary_settings(client):
            asyncio.run(set_up(SetupRequest(zombie_s=50.0)))
        server.prefect("deploy", "--all")
        yield server


if __name__ == "__main__":
    sys.exit(main())
