"""Names of processes, by which another process can check whether they are running."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from agent.workspaces import ownership


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """Yield a process that sleeps until it is killed."""
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def named_by_kernel(pid: int) -> str:
    """Return the name in the format of earlier releases: the number and its start time."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return f"{pid}-{fields[19]}"


def test_the_names_of_earlier_releases_are_understood(sleeper: subprocess.Popen[bytes]) -> None:
    """A label that an earlier release wrote names the same process."""
    assert ownership.process() == named_by_kernel(os.getpid())
    assert ownership.lives(named_by_kernel(sleeper.pid))


def test_a_paused_process_lives_until_it_ends(sleeper: subprocess.Popen[bytes]) -> None:
    """A paused process is alive. An ended one is dead, even if its parent has not reaped it."""
    name = named_by_kernel(sleeper.pid)
    sleeper.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, sleeper.pid, os.WSTOPPED | os.WNOWAIT)
    assert ownership.lives(name)
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    assert psutil.Process(sleeper.pid).status() == psutil.STATUS_ZOMBIE
    assert not ownership.lives(name)
    sleeper.wait()
    assert not ownership.lives(name)


@pytest.mark.parametrize("name", ["", "1", "x-1", "-5-1", f"{10**20}-1"])
def test_a_malformed_name_is_dead(name: str) -> None:
    """A malformed name belongs to no living process."""
    assert not ownership.lives(name)
