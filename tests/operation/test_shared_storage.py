"""Workers that share no folder: the lake on an object store, the journal on PostgreSQL."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.storage import report_files
from flows.storage.lake import Lake
from tests.operation.running import QUICK, begin, expect, states
from tests.servers.object_store import ObjectStore
from tests.servers.postgres import PostgresServer
from tests.servers.prefect_server import PrefectServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture
def store() -> Iterator[ObjectStore]:
    with ObjectStore() as running:
        yield running


@pytest.fixture
def server(store: ObjectStore, postgres: PostgresServer, tmp_path: Path) -> Iterator[PrefectServer]:
    """A server whose programs know nothing but URLs."""
    with PrefectServer(tmp_path) as made:
        made.environment |= {
            **QUICK,
            **store.environment,
            "DURABENCH_LAKE": store.create_lake(),
            "DURABENCH_DATABASE_URL": postgres.create_database(),
        }
        done = made.run("durabench", "setup")
        assert done.returncode == 0, done.stderr
        made.prefect("deploy", "--all")
        yield made


@pytest.mark.usefixtures("workers")
def test_workers_share_a_lake_without_a_folder(server: PrefectServer, store: ObjectStore) -> None:
    """Every cell comes to its verdict, whoever took it, and the same again writes no row."""
    url = server.environment["DURABENCH_LAKE"]
    expect(server, begin(server, repeats=2))
    arms = report_files.read(Lake.existing(url), "apart").arms
    assert {arm.name: arm.resolved for arm in arms} == {"mini": 4, "null": 0}
    assert states(server, "apart") == ["COMPLETED"] * 8
    before = store.versions(url)
    expect(server, begin(server, repeats=2))
    assert states(server, "apart") == ["COMPLETED"] * 8
    after = store.versions(url)
    assert {name for name in after if after[name] != before.get(name)} == {
        name for name in before if "/reports/apart/" in name
    }
    assert not (server.folder / "lake").exists()
