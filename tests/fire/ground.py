"""The ground of one round: a model server, a database, a lake, and the commands that work on it."""

import os
import re
import signal
import struct
import subprocess
import sys
import time
from collections import Counter
from contextlib import AbstractContextManager, ExitStack, closing
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, TypeVar
from unittest.mock import patch

import psutil
import yaml

from agent.journal import Journal
from agent.workspaces import ownership
from flows.storage.journals import VARIABLE, open_journal
from flows.storage.lake import Lake
from tests.disks import mounted, mounted_ext4
from tests.fire.models import USD_PER_INPUT, USD_PER_OUTPUT, PaidModel
from tests.fire.works import Experiment
from tests.operation.running import kill_all, start_worker
from tests.servers.cable import Cable
from tests.servers.docker_daemon import DockerDaemon
from tests.servers.openai_server import OpenAIServer
from tests.servers.postgres import PostgresServer
from tests.servers.prefect_home import copy_home, migrated
from tests.servers.prefect_server import PrefectServer
from tests.timing import as_variables

CLOCK = Path(__file__).with_name("clock.c")
"""A library that sets the clock of a program. That of Debian breaks Python's `time.sleep`."""

LEASE_S = 4.0
TIMEOUT_S = 4.0
"""Time limit of a call."""
PATIENCE_S = 240.0
"""Without a call or an end for this long, a round is stuck."""
DISK_MB = 1200  # a run needs a gigabyte
NAME = "fire"
_OWN_NAME = re.compile(r"-(\d{8}t\d{6}|[0-9a-f]{10})$")
"""What makes the name of a fork, a chat or a job its own."""
Result = tuple[Any, ...]
Cell = tuple[str, str, str, int]
"""Experiment, arm, instance and repeat."""
Disk = Literal["", "small", "fragile"]
"""The disk of the lake; "" for the one of all tests."""
T = TypeVar("T")


class Ground:
    """Servers, commands and files of a round. Everything ends with the context."""

    program = (str(Path(sys.executable).with_name("durabench")),)

    def __init__(
        self,
        folder: Path,
        declared: dict[str, Any],
        work: Experiment,
        *,
        processes: int = 1,
        postgres: PostgresServer | None = None,
        prefect: PrefectServer | None = None,
        docker: DockerDaemon | None = None,
        has_clock: bool = False,
        disk: Disk = "",
        latency_s: float = 0.3,
    ) -> None:
        self.folder = folder
        self.lake = folder / "disk" / "lake" if disk else folder / "lake"
        self._mount = {"small": mounted, "fragile": mounted_ext4}.get(disk)
        self.processes, self.concurrency = processes, int(declared["concurrency"])
        self.docker, self._has_clock = docker, has_clock
        self.model, self.postgres = PaidModel(latency_s, work.create_script()), postgres
        self.commands: list[subprocess.Popen[bytes]] = []
        self.workers: list[subprocess.Popen[bytes]] = []
        self.ended: list[tuple[int, str]] = []
        """Exit code and output of each command that has ended by itself."""
        self.clock_s = 0
        """The next command's clock is this many seconds ahead."""
        self._clocks: dict[int, Path] = {}
        """Files with the clocks of commands, by pid."""
        self.declared, self._work, self._stack = declared, work, ExitStack()
        self.file = folder / f"{NAME}.yaml"
        self._outputs: dict[int, Path] = {}
        folder.mkdir(parents=True)
        own: dict[str, str] = {} if postgres is None else {VARIABLE: postgres.create_database()}
        inherited = {name: text for name, text in os.environ.items() if name != VARIABLE}
        self.environment = {
            **(prefect.environment if prefect else inherited),
            **own,
            **as_variables(lease_s=LEASE_S),
            "DURABENCH_LAKE": str(self.lake),
            "OPENAI_API_KEY": "throw-away",
            "COLUMNS": "200",
        }
        if docker:
            self.environment["DOCKER_HOST"] = docker.url
        if has_clock:
            compile_ = ["cc", "-shared", "-fPIC", "-o", str(folder / "clock.so"), str(CLOCK)]
            subprocess.run(compile_, check=True)
        if prefect is None:
            self.environment["PREFECT_HOME"] = str(folder / "prefect")
            copy_home("migrated", migrated, folder / "prefect")
        self.server = prefect
        """The server of all rounds, which can be stopped."""
        self.prefect = prefect.apart(folder, **self.environment) if prefect else None
        """The same for the programs of this round."""

    def __enter__(self) -> "Ground":
        server = self._stack.enter_context(OpenAIServer(self.model, keep_requests=False))
        self.cable = Cable(int(server.url.split(":")[2].removesuffix("/v1")))
        self._stack.callback(self.cable.cut)
        address = f"http://127.0.0.1:{self.cable.port}/v1"
        arms = [
            {
                "name": arm,
                "agent": arm,
                "model": {
                    "name": f"openai/{arm}-0.7",
                    "api_base": address,
                    "timeout_s": TIMEOUT_S,
                    "max_tokens": 1000,
                    "input_cost_per_token": USD_PER_INPUT,
                    "output_cost_per_token": USD_PER_OUTPUT,
                },
            }
            for arm in self.declared["arms"]
        ]
        if self._mount:
            self.disk = self._stack.enter_context(self._mount(self.lake.parent, DISK_MB))
        self.file.write_text(yaml.safe_dump({"name": NAME, **self.declared, "arms": arms}))
        self._stack.callback(self.kill)
        if self.prefect:
            self.workers += [start_worker(self.prefect) for _ in range(2)]
        self._work.prepare(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._stack.close()

    def enter(self, server: AbstractContextManager[T]) -> T:
        """Enter a context that ends with the ground."""
        return self._stack.enter_context(server)

    @property
    def asked(self) -> Counter[str]:
        """Charged requests by arm."""
        return Counter({m.removesuffix("-0.7"): n for m, n in self.model.asked.items()})

    def start(self) -> None:
        """Start commands until as many run as the round has."""
        while len(self.commands) < self.processes:
            number = len(self._outputs)
            output, clock = self.folder / f"command-{number}.log", self.folder / f"clock-{number}"
            clock.write_bytes(struct.pack("l", self.clock_s))
            preload = {"LD_PRELOAD": str(self.folder / "clock.so"), "FIRE_CLOCK": str(clock)}
            with output.open("wb") as file:
                command = subprocess.Popen(
                    [*self.program, *self._work.list_arguments(self)],
                    env={**self.environment, **(preload if self._has_clock else {})},
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=file,
                    start_new_session=True,
                )
            self._outputs[command.pid], self._clocks[command.pid] = output, clock
            self.commands.append(command)

    def set_clock(self, command: "subprocess.Popen[bytes]", ahead_s: int) -> None:
        """Set the clock of a running command."""
        with self._clocks[command.pid].open("r+b") as file:
            file.write(struct.pack("l", ahead_s))

    def collect(self) -> bool:
        """Note the commands that have ended. Return True if one has finished the work."""
        for command in [one for one in self.commands if one.poll() is not None]:
            self.commands.remove(command)
            self.ended.append((command.returncode, self._outputs[command.pid].read_text()))
        return any(self._work.has_finished(code, output) for code, output in self.ended)

    def kill(self) -> None:
        """Kill every command and worker with all its processes."""
        for program in (*self.commands, *self.workers):
            program.send_signal(signal.SIGCONT)
            kill_all(program)
        self.commands.clear()
        self.workers.clear()

    def open_journal(self) -> Journal:
        """Return the journal of the lake."""
        with patch.dict(os.environ):
            os.environ.pop(VARIABLE, None)
            os.environ |= {n: text for n, text in self.environment.items() if n == VARIABLE}
            return open_journal(self.open_lake())

    def open_lake(self) -> Lake:
        """Return the lake for reading."""
        return Lake.existing(self.lake)

    def read_results(self) -> dict[Cell, Result]:
        """Return outcome, calls, tokens, cost, patch and verdict of each cell."""
        lake = self.open_lake()
        places = lake.places("attempts", "*")
        names = sorted({experiment for experiment, _, _ in places})
        verdicts = {
            r["attempt_id"]: r["outcome"] for n in names for r in lake.rows("evaluations", n)
        }
        patches = {
            r["attempt_id"]: r["model_patch"] for n in names for r in lake.rows("predictions", n)
        }
        columns = ("outcome", "model_calls", "input_tokens", "output_tokens", "cost_usd")
        return {
            (_OWN_NAME.sub("", experiment), arm, *_find_task(row)): (
                *(row[name] for name in columns),
                patches.get(row["attempt_id"]),
                verdicts.get(row["attempt_id"]),
            )
            for experiment, arm, unit in places
            for row in lake.read("attempts", experiment, arm, unit)
        }

    def list_problems(self) -> list[str]:
        """Return what is wrong with the finished work, beyond its calls and results."""
        return self._work.list_problems(self)

    def list_leftovers(self) -> list[str]:
        """Return processes and containers that the round has left behind, after a short wait."""
        deadline = time.monotonic() + 10
        while (left := [*self._list_processes(), *self._list_containers()]) and (
            time.monotonic() < deadline
        ):
            time.sleep(0.2)
        return left

    def _list_processes(self) -> list[str]:
        """Return the processes of the round. Workers belong to its services and go on."""
        found, workers = [], {worker.pid for worker in self.workers}
        for process in psutil.process_iter():
            try:
                if process.pid in workers:
                    continue
                if process.environ().get("DURABENCH_LAKE") == str(self.lake):
                    found.append(f"process {' '.join(process.cmdline())[:100]}")
            except psutil.Error:
                continue  # it has ended
        return found

    def _list_containers(self) -> list[str]:
        if self.docker is None:
            return []
        with closing(self.docker.client()) as client:
            labelled = {"label": ownership.ATTEMPT}
            found = client.containers.list(all=True, filters=labelled, ignore_removed=True)
        return [f"container {container.name}" for container in found]


def _find_task(row: dict[str, Any]) -> tuple[str, int]:
    """Return instance and repeat."""
    return _OWN_NAME.sub("", row["instance_id"]), row["repeat"]
