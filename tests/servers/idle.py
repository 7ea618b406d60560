"""Servers that all tests of a process share, suspended while its tests use others.

An idle Prefect server takes 2 % of a processor, and a whole test run has a dozen of them.
"""

import signal
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

DRAIN_S = 10.0
"""Time limit for what Prefect's client still has to send after a test."""


@dataclass
class _Shared:
    """The server of a fixture."""

    fixture: str
    send: Callable[[int], None]
    """Sends a signal to the server."""
    is_suspended: bool = False

    def resume(self) -> None:
        self.send(signal.SIGCONT)
        self.is_suspended = False

    def suspend(self) -> None:
        self.send(signal.SIGSTOP)
        self.is_suspended = True


_SHARED: list[_Shared] = []


@contextmanager
def suspended_while_idle(fixture: str, send: Callable[[int], None]) -> Iterator[None]:
    """Let `resume` and `suspend` handle the server of that fixture during the block."""
    shared = _Shared(fixture, send)
    _SHARED.append(shared)
    try:
        yield
    finally:
        _SHARED.remove(shared)
        shared.resume()


def resume(used: Collection[str]) -> None:
    """Resume the servers of these fixtures."""
    for shared in _SHARED:
        if shared.fixture in used:
            shared.resume()


def resume_all() -> None:
    """Resume every server, at the end of a run: Prefect's client sends its last events then."""
    for shared in _SHARED:
        shared.resume()


def suspend(used: Collection[str]) -> None:
    """Suspend the servers of all fixtures but these.

    Prefect's client first sends the events and logs that are left, in the background. It connects
    once, so it also has to end: the next test may use another server.
    """
    idle = [each for each in _SHARED if each.fixture not in used and not each.is_suspended]
    if idle:
        _send_the_rest()
    for shared in idle:
        shared.suspend()


def _send_the_rest() -> None:
    # Prefect configures its logging when it is imported, and a test may set that first.
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker

    EventsWorker.drain_all(DRAIN_S)
    APILogWorker.drain_all(DRAIN_S)
