"""The door for the resources that a row asks for."""

from typing import Any

import pytest

from eval.errors import DatasetError
from eval.resources import Demand, demand


@pytest.mark.parametrize(
    ("row", "wanted"),
    [
        ({}, Demand()),
        ({"resources": None, "environment": None}, Demand()),
        (
            {"resources": {"memory_gb": 8, "cpus": 0.5, "pids": 99, "disk_gb": "30"}},
            Demand(8, 0.5, 99, 30),
        ),
        ({"resources": '{"memory_gb": 8, "cpus": null}'}, Demand(memory_gb=8)),
        (
            {"environment": {"cpus": 4, "memory_mb": 2048, "storage_mb": 10240}},
            Demand(2, 4, None, 10),
        ),
        ({"environment": {"memory": "512M", "storage": "1.5 GiB"}}, Demand(0.5, disk_gb=1.5)),
        ({"environment": {"memory": "4G"}, "resources": {"memory_gb": 8}}, Demand(memory_gb=8)),
        ({"docker_image": "a/b", "test_cmds": ["pytest"]}, Demand(memory_gb=16)),
        (
            {"docker_image": "a", "test_cmds": ["t"], "resources": {"memory_gb": 2}},
            Demand(memory_gb=2),
        ),
        ({"environment": "testbed", "resources": ["a link"]}, Demand()),
        ({"resources": "{no json"}, Demand()),
    ],
)
def test_a_row_may_ask_for_resources(row: dict[str, Any], wanted: Demand) -> None:
    """By the names of an experiment, by the names of Harbor, or as a row of SWE-bench-Live."""
    assert demand(row) == wanted


@pytest.mark.parametrize("value", [0, -1, True, "much", "nan", float("inf"), 10**400, [4], {}])
@pytest.mark.parametrize("name", ["memory_gb", "memory", "memory_mb", "cpus", "pids", "storage"])
def test_other_values_are_refused_in_one_line(name: str, value: object) -> None:
    """A limit that is not a positive number is not guessed."""
    with pytest.raises(DatasetError, match=rf"^{name} must be a positive number or a size"):
        demand({"resources": {name: value}})
