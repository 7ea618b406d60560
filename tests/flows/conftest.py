"""Experiments that run in seconds, and lakes in which one has finished."""

import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from flows.experiments import declaration
from flows.experiments.declaration import Experiment
from flows.storage import journals
from flows.storage.lake import Lake
from tests.servers import openai_server as api

SUBMIT = api.command("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && cat README.md")
"""An answer of a model that submits the README as the patch of `mini`."""

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


def rows(lake_path: str, table: str) -> list[dict[str, Any]]:
    """Return all rows of a table of a lake."""
    lake = Lake.existing(lake_path)
    return [row for unit in lake.units(table, "*") for row in lake.find(table, unit)]


class Finished:
    """Lakes with a finished experiment. Each is made once per process; tests get copies."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lakes: dict[str, Path] = {}

    async def copy(self, declared: Experiment, to: str) -> Lake:
        """Copy a lake in which the experiment has run, with its journal and Prefect's results."""
        from flows.benchmark import benchmark

        name = declared.model_dump_json()
        return await self.copy_of(name, lambda path: benchmark(declared, path), to)

    async def copy_of(self, name: str, make: Callable[[str], Awaitable[object]], to: str) -> Lake:
        """Copy the lake that `make` leaves at a path. `make` is called once for each name."""
        if name not in self._lakes:
            self._lakes[name] = await self._made(make)
        shutil.copytree(self._lakes[name], to)
        return Lake.existing(to)

    async def _made(self, make: Callable[[str], Awaitable[object]]) -> Path:
        path = self._folder / str(len(self._lakes))
        with pytest.MonkeyPatch.context() as patch:
            patch.delenv(journals.VARIABLE, raising=False)
            await make(str(path))
            # An open journal is not complete on the disk.
            journals.open_journal(Lake.existing(path)).close()
        journals.forget()
        return path


@pytest.fixture(scope="session")
def finished(prefect: None, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """Return finished lakes for tests that begin after the end of an experiment."""
    return Finished(tmp_path_factory.mktemp("finished"))


def trial(**changes: Any) -> Experiment:
    """Return an experiment on two bundled instances on the host: a skilled arm, an unskilled one
    and both controls."""
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
