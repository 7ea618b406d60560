"""Experiments that run in seconds."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flows.experiments import declaration
from flows.experiments.declaration import Experiment
from tests.servers.prefect_server import PrefectServer

PREDICTION = {
    "attempt_id": "1",
    "instance_id": "a__b-1",
    "repeat": 0,
    "model_name_or_path": "a",
    "model_patch": "diff",
    "patch_sha256": "0",
}
"""A row of `predictions`."""


@pytest.fixture
def lake_path(tmp_path: Path) -> str:
    return str(tmp_path / "lake")


@pytest.fixture(scope="session")
def prefect_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrefectServer]:
    """A Prefect server as an operator has one, for all tests of this process."""
    with PrefectServer(tmp_path_factory.mktemp("prefect-server")) as server:
        yield server


def trial(**changes: Any) -> Experiment:
    """Two bundled instances on the host: a skilled arm, an unskilled one and both controls."""
    content: dict[str, Any] = {
        "name": "trial",
        "environment": "host",
        "select": {"sample": 2},
        "arms": [
            {"name": "able", "agent": "mini", "model": {"provider": "simulated", "skill": 1}},
            {"name": "unable", "agent": "mini", "model": {"provider": "simulated", "skill": 0}},
            {"name": "gold", "agent": "gold"},
            {"name": "null", "agent": "null"},
        ],
        "primary": {"baseline": "unable", "candidate": "able"},
        "evaluation_timeout_s": 120,
        **changes,
    }
    return declaration.parse(content, "trial")
