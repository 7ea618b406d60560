"""A second Docker daemon that tests may stop and kill, separate from the machine's daemon.

with DockerDaemon() as daemon:
    daemon.load("some/image:latest")
    daemon.stop()
    daemon.start()
"""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pytest

REQUIRE_DOCKER = "DURABENCH_REQUIRE_DOCKER"
"""If this is set, a test that cannot start a daemon fails instead of being skipped."""

START_TIMEOUT_S, STOP_TIMEOUT_S = 60, 60


def require_dockerd() -> str:
    """Return the path of `dockerd`. Skip or fail the test if this user cannot start it."""
    found = shutil.which("dockerd")
    if found is None or os.geteuid() != 0:
        skip_or_fail("a separate Docker daemon needs root and the program dockerd")
    return found


def skip_or_fail(reason: str) -> NoReturn:
    """Skip the test, or fail it if Docker is required."""
    if os.environ.get(REQUIRE_DOCKER):
        pytest.fail(reason)
    pytest.skip(reason)


def _alone(command: Sequence[str]) -> list[str]:
    """Run in a separate network: without a bridge, the daemon would remove the machine's."""
    return ["unshare", "--net", *command]


class DockerDaemon:
    """A daemon with its own images and containers and no network, removed with the context."""

    def __init__(self, inside: Callable[[Sequence[str]], list[str]] = _alone) -> None:
        """`inside` returns the command that runs the daemon's command in another place."""
        self._program = require_dockerd()
        self._inside = inside
        # Not in pytest's folders: the path of a socket has at most 107 characters.
        self._folder = Path(tempfile.mkdtemp(prefix="dockerd-"))
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"unix://{self._folder / 'socket'}"

    def __enter__(self) -> "DockerDaemon":
        try:
            self.start()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        try:
            if not self.runs:
                self.start()  # ends the containers that a killed daemon left running
            self.stop()
        finally:
            self.remove()

    @property
    def runs(self) -> bool:
        """Return True if the daemon was started and has not been stopped since."""
        return self._process is not None

    def start(self) -> None:
        """Start the daemon with its earlier images and containers, and wait until it answers."""
        folders = {
            "data-root": self._folder / "data",
            "exec-root": self._folder / "exec",
            "pidfile": self._folder / "pid",
        }
        options = [f"--{name}={path}" for name, path in folders.items()]
        # containerd ends with a killed daemon. An init that reaps nothing keeps its pid in use.
        (folders["exec-root"] / "containerd" / "containerd.pid").unlink(missing_ok=True)
        no_network = ["--bridge=none", "--iptables=false", "--ip-forward=false"]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._inside([self._program, "-H", self.url, *options, *no_network]),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"dockerd does not start: {self._log()}")
            time.sleep(0.05)

    def stop(self) -> None:
        """Stop the daemon as a service manager does: its containers end with it."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Stop the daemon as a crash does: its containers keep running until the next start."""
        self._end(signal.SIGKILL)

    def load(self, *images: str) -> None:
        """Copy images from the machine's daemon."""
        save = subprocess.Popen(["docker", "save", *images], stdout=subprocess.PIPE)
        with save:
            subprocess.run(
                ["docker", "-H", self.url, "load"],
                stdin=save.stdout,
                stdout=subprocess.DEVNULL,
                check=True,
                timeout=300,
            )
        assert save.returncode == 0, f"docker save of {', '.join(images)} failed"

    def client(self) -> Any:
        """Return a client of the daemon, which the caller closes."""
        import docker

        return docker.DockerClient(base_url=self.url)

    def _answers(self) -> bool:
        from docker.errors import DockerException

        try:
            client = self.client()
        except DockerException:
            return False
        client.close()
        return True

    def _end(self, signal_number: int) -> None:
        assert self._process is not None, "the daemon does not run"
        self._process.send_signal(signal_number)
        self._process.wait(STOP_TIMEOUT_S)
        self._process = None

    def remove(self) -> None:
        """Remove all files of a daemon that has ended, with its machine or by itself."""
        if self._process is not None:
            self._process.wait(STOP_TIMEOUT_S)
        mounts = Path("/proc/mounts").read_text(encoding="utf-8").splitlines()
        for mount in reversed([line.split()[1] for line in mounts]):
            if Path(mount).is_relative_to(self._folder):
                subprocess.run(["umount", "--lazy", mount], check=True)
        shutil.rmtree(self._folder)

    def _log(self) -> str:
        return (self._folder / "log").read_text(encoding="utf-8", errors="replace")[-2000:]
