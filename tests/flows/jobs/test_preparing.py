"""The repository of a job becomes an instance."""

from pathlib import Path

import pytest

from flows.jobs.preparing import prepare
from flows.storage.images import CACHE_VARIABLE
from flows.storage.lake import Lake
from tests.agent.repositories import with_files
from tests.flows.jobs.conftest import FILES, REPAIR, request

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", ["My project (1)", "größe==1"])
def test_a_folder_may_have_any_name(
    name: str, tmp_path: Path, lake_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its instance has an id of letters, digits and dashes."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    with_files(FILES)(tmp_path / name)
    asked = request(REPAIR, source=str(tmp_path / name), publish="patch")
    prepared = prepare(asked, Lake.open(lake_path))
    assert prepared.instance.repo == name
    assert prepared.instance.instance_id.endswith(f"-{asked.job_id}")
