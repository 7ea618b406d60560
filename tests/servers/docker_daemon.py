"""A second Docker daemon of its own, to be stopped and killed: never the one of the machine.

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
from pathlib import Path
from typing import Any, NoReturn

import pytest

REQUIRE_DOCKER = "DURABENCH_REQUIRE_DOCKER"
"""Where this is set, a test that cannot have a daemon fails instead of being skipped."""

START_TIMEOUT_S, STOP_TIMEOUT_S = 60, 60


def require_dockerd() -> str:
    """The program that is the daemon; skips or fails where this user cannot start one."""
    found = shutil.which("dockerd")
    if found is None or os.geteuid() != 0:
        cannot_be_had("a Docker daemon of one's own takes root and the program dockerd")
    return found


def cannot_be_had(reason: str) -> NoReturn:
    """Skip the test, or fail it where Docker is required."""
    if os.environ.get(REQUIRE_DOCKER):
        pytest.fail(reason)
    pytest.skip(reason)


class DockerDaemon:
    """A daemon with images and containers of its own and no network, gone with the context."""

    def __init__(self) -> None:
        self._program = require_dockerd()
        # Not below pytest's folders: the path of a socket has at most 107 characters.
        self._folder = Path(tempfile.mkdtemp(prefix="dockerd-"))
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"unix://{self._folder / 'socket'}"

    def __enter__(self) -> "DockerDaemon":
        try:
            self.start()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        try:
            if not self.runs:
                self.start()  # which ends what a killed daemon left running
            self.stop()
        finally:
            self._remove()

    @property
    def runs(self) -> bool:
        """Whether it was started and not ended since."""
        return self._process is not None

    def start(self) -> None:
        """Start it, with what it had before; returns when it answers."""
        folders = {
            "data-root": self._folder / "data",
            "exec-root": self._folder / "exec",
            "pidfile": self._folder / "pid",
        }
        options = [f"--{name}={path}" for name, path in folders.items()]
        no_network = ["--bridge=none", "--iptables=false", "--ip-forward=false"]
        # A network namespace of its own: without a bridge it would remove the machine's.
        alone = ["unshare", "--net"]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*alone, self._program, "-H", self.url, *options, *no_network],
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
        """Stop it as a service manager does: its containers end with it."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Stop it as a crash does: its containers run on until it is started again."""
        self._end(signal.SIGKILL)

    def load(self, image: str) -> None:
        """Copy an image from the machine's own daemon."""
        save = subprocess.Popen(["docker", "save", image], stdout=subprocess.PIPE)
        with save:
            subprocess.run(
                ["docker", "-H", self.url, "load"],
                stdin=save.stdout,
                stdout=subprocess.DEVNULL,
                check=True,
                timeout=300,
            )
        assert save.returncode == 0, f"docker save {image} failed"

    def client(self) -> Any:
        """A client of it; the caller closes it."""
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
        assert self._process is not None, "it runs"
        self._process.send_signal(signal_number)
        self._process.wait(STOP_TIMEOUT_S)
        self._process = None

    def _remove(self) -> None:
        mounts = Path("/proc/mounts").read_text(encoding="utf-8").splitlines()
        for mount in reversed([line.split()[1] for line in mounts]):
            if Path(mount).is_relative_to(self._folder):
                subprocess.run(["umount", "--lazy", mount], check=True)
        shutil.rmtree(self._folder)

    def _log(self) -> str:
        return (self._folder / "log").read_text(encoding="utf-8", errors="replace")[-2000:]
