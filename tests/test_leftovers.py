"""The programs that the processes of an interrupted test run have left behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.waiting import wait_until

ROOT = Path(__file__).parents[1]

SLOW_TO_STOP = """
import subprocess
import time
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def server():
    started = subprocess.Popen(["sleep", "600"], start_new_session=True)
    yield started
    time.sleep(60)  # an overloaded server takes its time
    started.terminate()


def test_interrupted(server):
    Path("server.part").write_text(str(server.pid))
    Path("server.part").rename("server.pid")
    time.sleep(60)
"""


ENDS_AFTER_ITS_PARENT = """
import subprocess


def test_passes():
    # Its input ends with the process of the test, like that of a server of forks.
    subprocess.Popen(["sh", "-c", "cat; sleep 0.5"], stdin=subprocess.PIPE)
"""


@pytest.mark.slow
def test_an_interrupted_run_leaves_no_server_behind(tmp_path: Path) -> None:
    """xdist ends its processes before their fixtures have stopped the server."""
    run = begin(SLOW_TO_STOP, tmp_path)
    wait_until((tmp_path / "server.pid").exists)
    os.killpg(run.pid, signal.SIGINT)
    printed, _ = run.communicate()
    assert "killed a program that was left behind: sleep 600" in printed
    wait_until(lambda: _has_ended(int((tmp_path / "server.pid").read_text())))


@pytest.mark.slow
def test_a_program_that_is_about_to_end_is_not_killed(tmp_path: Path) -> None:
    """Its parent was a process of the run, and it ends shortly after it."""
    printed, _ = begin(ENDS_AFTER_ITS_PARENT, tmp_path).communicate()
    assert "1 passed" in printed
    assert "left behind" not in printed


def begin(tests: str, folder: Path) -> subprocess.Popen[str]:
    """Start a test run of its own, with one process of xdist."""
    (folder / "test_it.py").write_text(tests)
    command = [sys.executable, "-m", "pytest", "-p", "tests.leftovers", "-n", "1", "test_it.py"]
    return subprocess.Popen(
        [*command, "--rootdir", str(folder)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def _has_ended(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
