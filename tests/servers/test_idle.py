"""A shared server is suspended unless the next test uses it."""

import subprocess
from collections.abc import Iterator

import psutil
import pytest

from tests.servers import idle
from tests.waiting import wait_until


@pytest.fixture
def program() -> Iterator["subprocess.Popen[bytes]"]:
    """Yield a program that waits for its end."""
    with subprocess.Popen(["sleep", "600"]) as running:
        yield running
        running.kill()


def test_a_server_runs_for_its_tests(program: "subprocess.Popen[bytes]") -> None:
    """It also runs once it is no longer shared, so that it can be stopped."""

    def is_(state: str) -> None:
        wait_until(lambda: psutil.Process(program.pid).status() == state)

    with idle.suspended_while_idle("of_this_test", program.send_signal):
        idle.suspend({"of_this_test"})
        is_(psutil.STATUS_SLEEPING)
        idle.suspend({"another"})
        is_(psutil.STATUS_STOPPED)
        idle.resume({"another"})
        is_(psutil.STATUS_STOPPED)
        idle.resume({"of_this_test", "another"})
        is_(psutil.STATUS_SLEEPING)
        idle.suspend(())
        is_(psutil.STATUS_STOPPED)
    is_(psutil.STATUS_SLEEPING)
