"""Resources of containers, from the declaration and the rows to the limits."""

from dataclasses import replace
from typing import Any

import pytest

from agent.workspaces import ResourceLimits
from agent.workspaces.limits import GB
from eval.instances import load
from eval.resources import Demand
from flows.display.errors import UsageError
from flows.experiments.resources import Resources, refuse_excess

INSTANCE = load("bundled")[0]
LARGE = replace(INSTANCE, demand=Demand(memory_gb=16, pids=2048))


@pytest.mark.parametrize(
    ("declared", "instance", "limits"),
    [
        ({}, INSTANCE, ResourceLimits()),
        ({}, LARGE, ResourceLimits(memory_bytes=16 * GB, pids=2048)),
        ({"memory_gb": 0.5}, INSTANCE, ResourceLimits(memory_bytes=GB // 2)),
        ({"memory_gb": 8, "cpus": 1}, LARGE, ResourceLimits(8 * GB, pids=2048, cpus=1)),
        ({"disk_gb": 100}, INSTANCE, ResourceLimits(disk_bytes=100 * GB)),
    ],
)
def test_a_declared_limit_comes_before_that_of_a_row(
    declared: dict[str, Any], instance: Any, limits: ResourceLimits
) -> None:
    """What neither of them says has a default."""
    assert Resources(**declared).of(instance) == limits


def test_an_option_of_a_command_is_a_declaration() -> None:
    """Commas and spaces separate its parts."""
    assert Resources.parse(None) == Resources.parse("") == Resources()
    assert Resources.parse("memory_gb=16, pids=99") == Resources(memory_gb=16, pids=99)


@pytest.mark.parametrize(
    "text", ["memory_gb", "ram=3", "pids=1.5", "memory_gb=0", "cpus=nan", "disk_gb=-1", "=", "a b"]
)
def test_an_option_that_says_something_else_is_refused(text: str) -> None:
    """The line has the names that are known."""
    with pytest.raises(UsageError, match=r"memory_gb, cpus, pids, disk_gb") as caught:
        Resources.parse(text)
    assert "\n" not in str(caught.value)


@pytest.mark.docker
@pytest.mark.parametrize(
    ("declared", "instance", "line"),
    [
        ({"memory_gb": 100_000}, INSTANCE, "resources asks for memory_gb: 100000, and Docker's"),
        (
            {"cpus": 1},
            replace(INSTANCE, demand=Demand(memory_gb=99_999)),
            f"{INSTANCE.instance_id} asks for memory_gb: 99999, and",
        ),
    ],
)
async def test_more_than_the_machine_has_is_refused(
    declared: dict[str, Any], instance: Any, line: str
) -> None:
    """It is one line with the remedy, before anything begins."""
    with pytest.raises(UsageError, match=line):
        await refuse_excess(Resources(**declared), [INSTANCE, instance], "docker")
    await refuse_excess(Resources(memory_gb=1, cpus=1, disk_gb=1), [instance], "docker")


async def test_a_host_has_no_limits() -> None:
    """Declared ones are refused there, and what a row asks for is not promised."""
    with pytest.raises(UsageError, match="there are none on the host"):
        await refuse_excess(Resources(cpus=1), [INSTANCE], "host")
    await refuse_excess(Resources(), [LARGE], "host")
