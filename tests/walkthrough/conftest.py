"""One finished experiment that all tests of the manual share to read results."""

import asyncio
import shutil
from pathlib import Path

import pytest

from flows.experiments import declaration
from flows.storage import journals
from flows.storage.lake import Lake

DECLARED = """
name: finished
environment: host
select: {sample: 2}
repeats: 2
arms:
  - {name: able, agent: mini, model: {provider: simulated, skill: 1}}
  - {name: "null", agent: "null"}
primary: {baseline: "null", candidate: able, margin: 0.05}
"""


@pytest.fixture(autouse=True)
def _no_other_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the journal in the lake, whatever the environment says."""
    monkeypatch.delenv(journals.VARIABLE, raising=False)


@pytest.fixture(scope="session")
def declared(tmp_path_factory: pytest.TempPathFactory) -> declaration.Experiment:
    """Return the experiment, read from its file."""
    path = tmp_path_factory.mktemp("declared") / "finished.yaml"
    path.write_text(DECLARED)
    return declaration.load(path)


@pytest.fixture(scope="session")
def finished(
    prefect: None, declared: declaration.Experiment, tmp_path_factory: pytest.TempPathFactory
) -> Lake:
    """Return the lake of the finished experiment. Tests only read from it."""
    from flows.benchmark import benchmark

    lake = Lake.existing(tmp_path_factory.mktemp("finished") / "lake")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(journals.VARIABLE, raising=False)
        asyncio.run(benchmark(declared, str(lake.root)))
    return lake


@pytest.fixture
def copied(finished: Lake, tmp_path: Path) -> Lake:
    """Return a copy of the finished experiment's lake that a test may change."""
    return Lake.existing(shutil.copytree(Path(finished.root), tmp_path / "lake"))
