"""A forge with a small project, with jobs and pipelines on it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flows.jobs.definition import Pipeline
from flows.jobs.forges.kinds import VARIABLES
from flows.jobs.request import FORGE, TOKEN, Request
from flows.storage.images import CACHE_VARIABLE
from flows.storage.lake import Lake, Row
from tests.servers.forge import Forge

NAME = "octo/demo"
FILES = {
    "calc.py": "def add(a, b):\n    return a - b\n",
    "test_calc.py": "from calc import add\n\ndef test_zero():\n    assert add(0, 0) == 0\n",
}
REPAIR = "sed -i 's/a - b/a + b/' calc.py"
BREAK = "sed -i 's/a - b/a - b + 1/' calc.py"


@pytest.fixture
def forge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Forge]:
    """Yield a forge with one project, whose token the environment has."""
    with Forge(tmp_path / "forge") as forge:
        forge.add(NAME, FILES)
        monkeypatch.setenv(FORGE, forge.url)
        monkeypatch.setenv(TOKEN, forge.token)
        for usual in VARIABLES.values():
            monkeypatch.delenv(usual, raising=False)
        monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
        yield forge


def arm(name: str, command: str) -> dict[str, Any]:
    """Return an arm that changes the repository with a command."""
    model = {"provider": "scripted", "replies": [command]}
    return {"name": name, "agent": "tests.flows.jobs.arms:solve", "model": model}


def request(*commands: str, **changes: Any) -> Request:
    """Return a job on the project, on the host, with one arm for each command."""
    arms = [arm(f"arm-{number}", command) for number, command in enumerate(commands)]
    content = {"source": NAME, "task": "Add, don't subtract.\n\nIt is wrong.", "arms": arms}
    return Request.model_validate(
        {**content, "environment": "host", "publish": "pull_request", **changes}
    )


def pipeline(*steps: dict[str, Any], **changes: Any) -> Pipeline:
    """Return a pipeline on the project, on the host. Each step has its own arm."""
    arms = [arm(step["name"].lower(), step.pop("command")) for step in steps]
    content = {"name": "release", "title": "A release", "source": NAME, "arms": arms}
    steps_ = [{**step, "arm": step["name"].lower()} for step in steps]
    return Pipeline.model_validate(
        {**content, "steps": steps_, "environment": "host", "publish": "pull_request", **changes}
    )


def step(name: str, command: str, *depends_on: str, **changes: Any) -> dict[str, Any]:
    """Return a step whose arm runs a command."""
    return {
        "name": name,
        "task": f"Do {name}.",
        "command": command,
        "depends_on": list(depends_on),
        **changes,
    }


def row_of(lake_path: str) -> Row:
    """Return the row of the lake's only job."""
    [row] = Lake.existing(lake_path).all_shared("jobs")
    return row
