"""Workers without a shared folder: the lake on an object store, the journal on PostgreSQL."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.storage import report_files
from flows.storage.lake import Lake
from tests.operation.running import begin, expect, run_workers, states
from tests.servers.object_store import ObjectStore
from tests.servers.postgres import PostgresServer
from tests.servers.prefect_server import PrefectServer

pytestmark = [
    pytest.mark.full,
    pytest.mark.slow,
    pytest.mark.timeout(900),
]


@pytest.fixture
def store() -> Iterator[ObjectStore]:
    with ObjectStore() as running:
        yield running


@pytest.fixture
def programs(
    server: PrefectServer, store: ObjectStore, postgres: PostgresServer, tmp_path: Path
) -> Iterator[PrefectServer]:
    """Yield the server for programs that share only URLs, with two workers."""
    made = server.apart(
        tmp_path,
        **store.environment,
        DURABENCH_LAKE=store.create_lake(),
        DURABENCH_DATABASE_URL=postgres.create_database(),
    )
    with run_workers(made, 2):
        yield made


def test_workers_share_a_lake_without_a_folder(programs: PrefectServer, store: ObjectStore) -> None:
    """Workers without a shared folder complete every cell, and a second run writes no row."""
    url = programs.environment["DURABENCH_LAKE"]
    expect(programs, begin(programs, name="stored", repeats=2))
    arms = report_files.read(Lake.existing(url), "stored").arms
    assert {arm.name: arm.resolved for arm in arms} == {"mini": 4, "null": 0}
    begun = states(programs, "stored")
    assert set(begun) == {"COMPLETED"}
    before = store.versions(url)
    expect(programs, begin(programs, name="stored", repeats=2))
    assert states(programs, "stored") == begun
    after = store.versions(url)
    assert {name for name in after if after[name] != before.get(name)} == {
        name for name in before if "/reports/stored/" in name
    }
    assert not (programs.folder / "lake").exists()
