"""A second machine: its own processes, network, temporary files and Docker daemon.

with Machine(folder) as machine, Cable(server.port, at=(GATEWAY, server.port)):
    machine.begin(["durabench", "doctor"], environment, log)
    machine.unplug()

It is a set of Linux namespaces on the first machine, to which a cable leads. The files are shared,
as on a network disk.
"""

import itertools
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.servers.docker_daemon import DockerDaemon, skip_or_fail

_NETWORK = f"10.214.{os.environ.get('PYTEST_XDIST_WORKER', 'gw0').removeprefix('gw')}"
GATEWAY = f"{_NETWORK}.1"
"""Address of the first machine, while there is another one."""

LOOPBACK = "127.0.0.1"
START_S = 20.0

_NEEDED = ("ip", "nsenter", "setpriv", "unshare")

_numbers = itertools.count(2)


def require_namespaces() -> None:
    """Skip or fail the test if this user cannot make namespaces with a network of their own."""
    if os.geteuid() != 0 or not all(map(shutil.which, _NEEDED)):
        skip_or_fail(f"another machine needs root and the programs {', '.join(_NEEDED)}")
    tried = subprocess.run(["unshare", "--net", "--pid", "--fork", "true"], capture_output=True)
    if tried.returncode:
        skip_or_fail(f"no namespaces for another machine: {tried.stderr.decode().strip()}")


class Machine:
    """A machine that can lose its power or its network. It is removed with the context."""

    def __init__(self, folder: Path) -> None:
        require_namespaces()
        number = next(_numbers)
        self._address = f"{_NETWORK}.{number}"
        # A name of an interface has at most 15 characters.
        self._plug, self._socket = (f"db{os.getpid()}-{number}{end}" for end in "ab")
        self.folder = folder
        self._power: subprocess.Popen[bytes] | None = None
        self._programs: list[subprocess.Popen[bytes]] = []
        self._init = 0
        self._temporary = ""
        self._end = ExitStack()
        self.daemon = DockerDaemon(self._inside)

    def __enter__(self) -> "Machine":
        with ExitStack() as end:
            end.callback(self.daemon.remove)
            end.callback(self.power_off)
            self._power_on()
            self._connect()
            self.folder.mkdir(parents=True)
            # The folder of a test may have too long a path for sockets.
            self._temporary = end.enter_context(TemporaryDirectory(prefix="machine-"))
            self.daemon.start()
            self._end = end.pop_all()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._end.close()

    def begin(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        """Start a program. Addresses in its environment become those of the first machine."""
        there = {name: text.replace(LOOPBACK, GATEWAY) for name, text in environment.items()}
        own = {"DOCKER_HOST": self.daemon.url, "TMPDIR": self._temporary}
        with log.open("ab") as output:
            begun = subprocess.Popen(
                self._inside(command),
                env=there | own,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._programs.append(begun)

    def unplug(self) -> None:
        """Lose the network: no packet passes, and no connection is closed."""
        _run("ip", "link", "set", self._plug, "down")

    def plug_in(self) -> None:
        """Have the network again."""
        _run("ip", "link", "set", self._plug, "up")

    def power_off(self) -> None:
        """End all processes at once, and the network with them."""
        if self._power is not None:
            os.kill(self._init, signal.SIGKILL)
            for program in (self._power, *self._programs):
                program.wait()
            self._power = None

    def _inside(self, command: Sequence[str]) -> list[str]:
        spaces = ["--net", "--pid", "--mount", "--uts", "--ipc"]
        return ["nsenter", "--target", str(self._init), *spaces, "--", *command]

    def _power_on(self) -> None:
        """Start the first process of the machine, which ends with this one."""
        spaces = ["--net", "--pid", "--mount-proc", "--uts", "--ipc", "--kill-child"]
        # The first process inherits all orphans. It must not keep them as zombies.
        first = ["env", "--ignore-signal=CHLD", "sleep", "infinity"]
        self._power = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "unshare", *spaces, *first], start_new_session=True
        )
        children = Path(f"/proc/{self._power.pid}/task/{self._power.pid}/children")
        deadline = time.monotonic() + START_S
        while not (init := _sleeping(children)):
            assert self._power.poll() is None, "the other machine has no namespaces"
            assert time.monotonic() < deadline, "the other machine does not start"
            time.sleep(0.02)
        self._init = init

    def _connect(self) -> None:
        _run("ip", "link", "add", self._plug, "type", "veth", "peer", "name", self._socket)
        _run("ip", "link", "set", self._socket, "netns", str(self._init))
        _run("ip", "addr", "add", GATEWAY, "peer", self._address, "dev", self._plug)
        self.plug_in()
        for arguments in (
            ["addr", "add", self._address, "peer", GATEWAY, "dev", self._socket],
            ["link", "set", self._socket, "up"],
            ["link", "set", "lo", "up"],
        ):
            _run(*self._inside(["ip", *arguments]))


def _run(*command: str) -> None:
    subprocess.run(command, check=True)


def _sleeping(children: Path) -> int:
    """Return the id of the child that is the first process in its namespace, else 0."""
    for child in children.read_text().split():
        if Path(f"/proc/{child}/cmdline").read_bytes().startswith(b"sleep\0"):
            return int(child)
    return 0
