"""The resources that a run of an experiment uses, with all processes of its workers."""

import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import yaml

from tests.servers.postgres import PostgresServer
from tests.servers.prefect_server import PrefectServer

WORKERS = 3

_DONE = re.compile(r"^\[ *\d+/\d+\] ", re.MULTILINE)
_LOOPS = 500_000
_LOOK_S, _END_S = 1.0, 0.2
"""Intervals between looks at all processes, and at the end of the command."""


@dataclass(frozen=True)
class Look:
    """Resources used up to a moment of a run by the processes that live then."""

    done: int
    """Number of finished cells."""
    at_s: float
    cpu_s: float
    """Of the command, the workers and their shards."""
    server_cpu_s: float
    command_bytes: int
    """Resident memory."""
    shard_bytes: int
    """Resident memory of the largest process of a shard; 0 while there is none."""
    loop_s: float
    """Processor time of a fixed loop: the speed of the machine at that moment."""


@dataclass(frozen=True)
class Spent:
    """Resources used by one run of an experiment."""

    cells: int
    wall_s: float
    cpu_s: float
    """Of the command, the workers and their shards."""
    server_cpu_s: float
    looks: Sequence[Look]
    """While cells were left to do, in order."""

    def before(self, done: int) -> Look:
        """Return the last look before more than a number of cells were finished, or the first."""
        return [*self.looks[:1], *(look for look in self.looks if look.done <= done)][-1]

    def after(self, done: int) -> Look:
        """Return the first look after a number of finished cells, or the last one."""
        return next((look for look in self.looks if look.done >= done), self.looks[-1])

    def between(self, begin: Look, end: Look) -> list[Look]:
        """Return the looks from one to another."""
        return [look for look in self.looks if begin.at_s <= look.at_s <= end.at_s]


@dataclass(frozen=True)
class Setup:
    """The programs that run alongside the measured command."""

    server: PrefectServer
    workers: Sequence[int] = ()
    """Process ids."""

    def workers_cpu_s(self) -> float:
        """Return the processor time of the workers and their shards, once these have ended."""
        while _shards():
            time.sleep(_END_S)
        return sum(read_cpu_s(pid) for pid in self.workers)

    def look(self, command: int, done: int) -> Look:
        """Look at all processes while a command runs.

        A parent is read before its children: the time of a child that has ended since is then
        in neither, and the look fails instead of counting it twice.

        Raises:
            psutil.Error: a process ended meanwhile.
        """
        below = [each for pid in self.workers for each in psutil.Process(pid).children(True)]
        programs = [command, *self.workers, *(each.pid for each in below)]
        return Look(
            done,
            time.perf_counter(),
            sum(read_cpu_s(pid) for pid in programs),
            read_cpu_s(self.server.pid),
            _resident_bytes(command),
            max((_resident_bytes(each.pid) for each in _shards()), default=0),
            _loop_s(),
        )


@contextmanager
def one_process(folder: Path) -> Iterator[Setup]:
    """Yield a server for runs in one process, with everything on SQLite."""
    with PrefectServer(folder) as server:
        yield Setup(server)


@contextmanager
def workers(folder: Path, count: int = WORKERS) -> Iterator[Setup]:
    """Yield a server with workers, with everything on PostgreSQL.

    Raises:
        RuntimeError: the server could not be prepared.
    """
    with ExitStack() as stack:
        database = stack.enter_context(PostgresServer())
        own = database.create_database("asyncpg")
        server = stack.enter_context(PrefectServer(folder, PREFECT_API_DATABASE_CONNECTION_URL=own))
        server.environment["DURABENCH_DATABASE_URL"] = database.create_database()
        done = server.run("durabench", "setup")
        if done.returncode:
            raise RuntimeError(f"setup failed: {done.stderr}")
        server.prefect("deploy", "--all")
        polls = {"PREFECT_WORKER_QUERY_SECONDS": "2"}  # as flows/operation/README.md says
        pids = [stack.enter_context(server.worker(**polls)).pid for _ in range(count)]
        yield Setup(server, pids)


def measured(setup: Setup, declared: dict[str, object], cells: int, *options: str) -> Spent:
    """Run an experiment of `cells` cells and measure it.

    Raises:
        RuntimeError: the run failed.
    """
    server = setup.server
    path = server.folder / f"{declared['name']}.yaml"
    path.write_text(yaml.safe_dump(declared))
    workers_s, server_s = setup.workers_cpu_s(), read_cpu_s(server.pid)
    started = time.perf_counter()
    running = server.begin("durabench", "run", str(path), *options)
    looks: list[Look] = []
    while not (ended := os.wait4(running.pid, os.WNOHANG))[0]:
        if not looks or time.perf_counter() - looks[-1].at_s > _LOOK_S:
            with suppress(psutil.Error):  # a process has just ended
                done = len(_DONE.findall(server.printed(running)))
                looks.append(setup.look(running.pid, done))
        time.sleep(_END_S)
    wall_s = time.perf_counter() - started
    _, status, usage = ended
    if status:
        raise RuntimeError(f"{cells} cells: {server.printed(running)[-2000:]}")
    print(f"  {declared['name']}: {cells} cells in {wall_s:.0f} s", flush=True)
    return Spent(
        cells,
        wall_s,
        usage.ru_utime + usage.ru_stime + setup.workers_cpu_s() - workers_s,
        read_cpu_s(server.pid) - server_s,
        [look for look in looks if look.done < cells],
    )


def _shards() -> list[psutil.Process]:
    below = psutil.Process().children(recursive=True)
    return [each for each in below if "flows.server.engine" in _command(each)]


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:  # it has ended
        return []


def _loop_s() -> float:
    """Return the processor time of a loop that takes 10 to 20 ms."""
    began = time.process_time()
    for _ in range(_LOOPS):
        pass
    return time.process_time() - began


def _resident_bytes(pid: int) -> int:
    """Return the resident memory of a process; 0 if it has ended."""
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0


def read_cpu_s(pid: int) -> float:
    """Return the CPU seconds of a process and of its children that have ended."""
    used = psutil.Process(pid).cpu_times()
    return float(used.user + used.system + used.children_user + used.children_system)
