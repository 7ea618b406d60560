"""A shared server is suspended unless the next test uses it."""

import subprocess
from collections.abc import Callable, Iterator

import psutil
import pytest
from prefect.server.api.server import SubprocessASGIServer
from prefect.settings import PREFECT_API_URL

from tests.conftest import pytest_runtest_teardown
from tests.servers import idle
from tests.waiting import wait_until


@pytest.fixture
def program() -> Iterator["subprocess.Popen[bytes]"]:
    """Yield a program that waits for its end."""
    with subprocess.Popen(["sleep", "600"]) as running:
        yield running
        running.kill()


@pytest.fixture
def is_(program: "subprocess.Popen[bytes]") -> Callable[[str], None]:
    """Return a function that waits until the program has a state."""

    def wait(state: str) -> None:
        wait_until(lambda: psutil.Process(program.pid).status() == state)

    return wait


def test_a_server_runs_for_its_tests(
    program: "subprocess.Popen[bytes]", is_: Callable[[str], None]
) -> None:
    """It also runs once it is no longer shared, so that it can be stopped."""
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


def test_every_server_runs_while_a_run_ends(
    program: "subprocess.Popen[bytes]", is_: Callable[[str], None]
) -> None:
    """Prefect's client waits without limit until its last events have arrived at a server."""
    with idle.suspended_while_idle("of_this_test", program.send_signal):
        idle.suspend(())
        is_(psutil.STATUS_STOPPED)
        next(pytest_runtest_teardown(nextitem=None))
        is_(psutil.STATUS_SLEEPING)


def status_of_harness() -> str | None:
    """Return the status of the server of the fixture `prefect`, or None if there is none."""
    running = SubprocessASGIServer().server_process
    return psutil.Process(running.pid).status() if running else None


@pytest.mark.usefixtures("prefect")
def test_a_test_with_prefect_finds_its_server() -> None:
    assert PREFECT_API_URL.value()
    assert status_of_harness() != psutil.STATUS_STOPPED


def test_a_test_without_prefect_finds_none() -> None:
    """The server of the test before is suspended, and a request to it would not end."""
    assert PREFECT_API_URL.value() is None
    assert status_of_harness() in {psutil.STATUS_STOPPED, None}
