"""The name of a process, by which another process tells whether it still runs."""

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
    """A process that waits to be ended."""
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def named_by_kernel(pid: int) -> str:
    """The name as every earlier release wrote it: the number and field 22 of its `stat`."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return f"{pid}-{fields[19]}"


def test_the_names_of_earlier_releases_are_understood(sleeper: subprocess.Popen[bytes]) -> None:
    """A label of an older container names the same process."""
    assert ownership.process() == named_by_kernel(os.getpid())
    assert ownership.lives(named_by_kernel(sleeper.pid))


def test_a_paused_process_lives_until_it_ends(sleeper: subprocess.Popen[bytes]) -> None:
    """One that has ended is dead at once, even if its parent has not asked for its exit code."""
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
def test_what_names_no_process_is_dead(name: str) -> None:
    """A damaged name."""
    assert not ownership.lives(name)


def test_a_number_that_was_given_again_is_dead() -> None:
    """The process of that number began at another time."""
    assert not ownership.lives(f"{os.getpid()}-1")
