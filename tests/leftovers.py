"""A pytest plugin: ends the programs that the processes of a test run have left behind.

xdist gives the processes of an interrupted run 15 s to end their fixtures, and then kills them.
Their servers would never end, some of them suspended.
"""

import uuid
from collections.abc import Iterator
from contextlib import suppress

import psutil
import pytest

_VARIABLE = "PYTEST_XDIST_TESTRUNUID"
"""Variable in which xdist tells its processes the id of the run."""

GRACE_S = 5.0
"""Time in which a program that ends after its parent, such as a server of forks, may do so."""


def pytest_configure(config: pytest.Config) -> None:
    """Choose the id of the run, which xdist would otherwise choose and not tell."""
    config.option.testrunuid = config.getoption("testrunuid", None) or uuid.uuid4().hex


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Kill what does not end soon after the processes of the run."""
    _, alive = psutil.wait_procs(list(_left_by(config.option.testrunuid)), timeout=GRACE_S)
    for program in alive:
        with suppress(psutil.NoSuchProcess):
            command = " ".join(program.cmdline())
            program.kill()
            terminalreporter.write_line(f"killed a program that was left behind: {command[:200]}")


def _left_by(run: str) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        with suppress(psutil.Error):  # it has ended, or belongs to another user
            if process.environ().get(_VARIABLE) == run:
                yield process
