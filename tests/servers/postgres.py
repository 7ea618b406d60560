"""A real, separate PostgreSQL server on a free loopback port, from Debian's package `postgresql`.

with PostgresServer() as server:
    url = server.create_database()
    server.restart()
"""

import itertools
import os
import pwd
import random
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

REQUIRE_POSTGRES = "DURABENCH_REQUIRE_POSTGRES"
"""If this is set, a test that cannot start PostgreSQL fails instead of being skipped."""

PROGRAMS = Path("/usr/lib/postgresql")


def require_postgres() -> Path:
    """Return the folder of the newest installed server. Skip or fail the test if there is none."""
    found = sorted(PROGRAMS.glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1].parent
    reason = f"no PostgreSQL in {PROGRAMS}: apt-get install postgresql"
    if os.environ.get(REQUIRE_POSTGRES):
        pytest.fail(reason)
    pytest.skip(reason)


def free_port() -> int:
    """Return a free loopback port that no other process of the test run picks.

    A test would mistake another process's server on its port for its own.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    for port in random.sample(range(20_000 + 1_000 * worker, 21_000 + 1_000 * worker), 100):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise RuntimeError("no free port")


class PostgresServer:
    """A server with an empty cluster, removed with the context."""

    def __init__(self) -> None:
        self._programs = require_postgres()
        # PostgreSQL refuses to run as root.
        self._user = "postgres" if os.geteuid() == 0 else None
        self._folder = Path(tempfile.mkdtemp(prefix="durabench-postgres-"))
        self._numbers = itertools.count(1)
        self.port = free_port()

    def __enter__(self) -> "PostgresServer":
        if self._user is not None:
            account = pwd.getpwnam(self._user)
            os.chown(self._folder, account.pw_uid, account.pw_gid)
        try:
            self._run("initdb", "-D", self._data, "-U", "bench", "-A", "trust", "-E", "UTF8")
            self.start()
        except BaseException:
            shutil.rmtree(self._folder)
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        if (self._folder / "data/postmaster.pid").exists():
            self.stop("immediate")
        shutil.rmtree(self._folder)

    def start(self) -> None:
        """Start the server, always on the same port, and wait until it accepts connections."""
        options = f"-c listen_addresses=127.0.0.1 -p {self.port} -c unix_socket_directories="
        log = str(self._folder / "log")
        self._run("pg_ctl", "-D", self._data, "-w", "-l", log, "-o", options, "start")

    def stop(self, mode: str = "fast") -> None:
        """Stop the server: `fast` closes every connection, `immediate` is a crash."""
        self._run("pg_ctl", "-D", self._data, "-w", "-m", mode, "stop")

    def restart(self, *, away_s: float = 0.0, mode: str = "fast") -> None:
        """Stop the server, and start it again after `away_s` seconds."""
        self.stop(mode)
        time.sleep(away_s)
        self.start()

    def create_database(self, driver: str = "psycopg", *options: str) -> str:
        """Create an empty database with these options and return its SQLAlchemy URL."""
        name = f"bench_{next(self._numbers)}"
        where = ["-h", "127.0.0.1", "-p", str(self.port), "-U", "bench"]
        self._run("createdb", *where, *options, name)
        return f"postgresql+{driver}://bench@127.0.0.1:{self.port}/{name}"

    def size_bytes(self) -> int:
        """Return the size of all databases of the server."""
        with psycopg.connect(f"postgresql://bench@127.0.0.1:{self.port}/postgres") as connection:
            row = connection.execute(
                "select sum(pg_database_size(oid)) from pg_database"
            ).fetchone()
        assert row is not None
        return int(row[0])

    @property
    def _data(self) -> str:
        return str(self._folder / "data")

    def _run(self, program: str, *arguments: str) -> None:
        # Not to a pipe: the server inherits the output and would keep the pipe open.
        output = self._folder / "output"
        with output.open("wb") as file:
            done = subprocess.run(
                [str(self._programs / program), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                cwd="/",
                user=self._user,
                group=self._user,
                extra_groups=[] if self._user else None,
                timeout=120,
            )
        if done.returncode:
            raise RuntimeError(f"{program} failed: {output.read_text(errors='replace')[-2000:]}")
