"""Servers that all tests of a process share, suspended while its tests use others.

An idle Prefect server takes 2 % of a processor, and a whole test run has a dozen of them. Prefect's
test harness is no such server: its address is a setting of the process, also for other tests.
"""

import signal
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

Send = Callable[[int], None]
"""Sends a signal to a server."""

_SHARED: list[tuple[str, Send]] = []
"""Fixtures, and how a signal reaches their servers."""


@contextmanager
def suspended_while_idle(fixture: str, send: Send) -> Iterator[None]:
    """Let `resume` and `suspend` handle the server of that fixture during the block."""
    _SHARED.append((fixture, send))
    try:
        yield
    finally:
        _SHARED.remove((fixture, send))
        send(signal.SIGCONT)


def resume(used: Collection[str]) -> None:
    """Resume the servers of these fixtures."""
    for fixture, send in _SHARED:
        if fixture in used:
            send(signal.SIGCONT)


def resume_all() -> None:
    """Resume every server, at the end of a run: Prefect's client sends its last events then.

    It sends them to the server of the process's first event, whichever one is set by then.
    """
    for _, send in _SHARED:
        send(signal.SIGCONT)


def suspend(used: Collection[str]) -> None:
    """Suspend the servers of all fixtures but these."""
    for fixture, send in _SHARED:
        if fixture not in used:
            send(signal.SIGSTOP)
