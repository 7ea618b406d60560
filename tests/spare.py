"""A pytest plugin: the last process of a test run takes only what time the others leave over.

Most tests wait for servers and containers at times, but a fourth process of such tests keeps the
others from answering in time. So the last process has low priority and takes files from the end of
the list, where those are that start no server and no container.
"""

import os
from contextlib import suppress
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

from tests.needs import needs

NICE = 10

SUITES = ("tests/agent/", "tests/eval/", "tests/reports/")
"""Their tests start no Prefect server."""

SERVERS = frozenset({"docker_client", "postgres", "postgresql", "server", "store"})
"""Fixtures and parameters behind which they start another server or a container."""


class SpareScheduling(LoadFileScheduling):
    """A distribution of files that gives the last process those at the end of the list."""

    def _assign_work_unit(self, node: WorkerController) -> None:
        if _is_last(node.gateway.id, self.numnodes):
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        super()._assign_work_unit(node)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling:
    return SpareScheduling(config, log)


def pytest_configure(config: pytest.Config) -> None:
    """Give the last process low priority."""
    process = getattr(config, "workerinput", None)
    if process and _is_last(process["workerid"], process["workercount"]):
        os.setsid()  # Linux shares time among sessions first, and by priority within each
        os.nice(NICE)
        with suppress(OSError):  # not every kernel does
            Path("/proc/self/autogroup").write_text(str(NICE))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Move the files without servers and containers to the end."""
    others = {item.path for item in items if not _needs_little(item)}
    items.sort(key=lambda item: item.path not in others)


def _needs_little(item: pytest.Item) -> bool:
    """Return True if a test needs neither a server nor a container."""
    return (
        item.nodeid.startswith(SUITES)
        and item.get_closest_marker("docker") is None
        and needs(item).isdisjoint(SERVERS)
    )


def _is_last(name: str, count: int) -> bool:
    """Return True for the name of the last of some processes, counted from `gw0`."""
    return name == f"gw{count - 1}"
