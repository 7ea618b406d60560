"""A lake on an object store behaves like one in a folder. The store is moto's server."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from s3fs import S3FileSystem
from typer.testing import CliRunner

from agent.errors import InfrastructureError, JournalError
from flows.cli.app import app
from flows.display.errors import UsageError
from flows.formats.exports import relations
from flows.operation import checkup
from flows.storage import journals, report_files
from flows.storage.lake import Lake
from reports.errors import ReportError
from reports.lake import find_newest
from tests.flows.conftest import PREDICTION
from tests.reports.lake_fixture import LakeBuilder
from tests.servers.object_store import ObjectStore, forget_connections
from tests.servers.postgres import free_port

IMAGE = {
    "image": "toy:1",
    "image_digest": None,
    "size_bytes": None,
    "how": "built",
    "brought_at": datetime(2026, 3, 1, tzinfo=UTC),
    "last_needed_at": datetime(2026, 3, 1, tzinfo=UTC),
    "removed_at": None,
}
ODD = "it's [a]*? run=3 #%41 ü"


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with ObjectStore() as running:
        yield running


@pytest.fixture
def url(store: ObjectStore) -> str:
    return store.create_lake()


@pytest.fixture(params=["folder", "store"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return a path or URL for a lake, with a name in which every character is odd."""
    if request.param == "folder":
        return str(tmp_path / ODD)
    created: str = request.getfixturevalue("store").create_lake(ODD)
    return created


@pytest.fixture
def lake(place: str) -> Lake:
    return Lake.open(place)


def files(lake: Lake) -> list[str]:
    """Return the names of all files in a lake, including temporary ones."""
    if isinstance(lake.root, Path):
        found = (path for path in lake.root.rglob("*") if path.is_file())
        return sorted(str(path.relative_to(lake.root)) for path in found)
    root = lake.root.path
    return sorted(name.removeprefix(f"{root}/") for name in lake.root.fs.find(root))


def test_units_come_back_as_they_were_written(lake: Lake, place: str) -> None:
    """Rows are read as they were written. One unit is one file under its experiment and arm."""
    path = lake.write("predictions", "trial", "a", "1", [PREDICTION])
    assert str(path) == f"{place}/predictions/experiment=trial/arm=a/1.parquet"
    assert lake.write("predictions", "trial", "a", "2", []) is None
    assert files(lake) == ["predictions/experiment=trial/arm=a/1.parquet"]
    assert lake.has("predictions", "trial", "a", "1")
    assert not lake.has("predictions", "trial", "a", "2")
    assert lake.read("predictions", "trial", "a", "1") == [PREDICTION]
    assert lake.read("predictions", "trial", "a", "2") == []


def test_units_are_found_by_name_experiment_and_arm(lake: Lake) -> None:
    """Units are found by shell patterns. An experiment whose name only begins alike is another
    one."""
    for experiment, arm, unit in [
        ("trial", "a", "x-2"),
        ("trial", "b", "x-1"),
        ("trial2", "a", "y"),
    ]:
        lake.write("predictions", experiment, arm, unit, [{**PREDICTION, "attempt_id": unit}])
    assert lake.units("predictions", "*") == ["x-1", "x-2", "y"]
    assert lake.units("predictions", "x-*", "trial", "a") == ["x-2"]
    assert lake.units("predictions", "*", "trial") == ["x-1", "x-2"]
    assert lake.units("predictions", "?") == ["y"]
    assert lake.units("predictions", "a/*") == []
    assert lake.latest_unit("predictions", "trial") == "x-2"
    assert [row["attempt_id"] for row in lake.rows("predictions", "trial")] == ["x-2", "x-1"]
    assert [row["attempt_id"] for row in lake.find("predictions", "x-1")] == ["x-1"]


def test_shared_rows_come_back(lake: Lake) -> None:
    """A shared row is read as it was written, and a later row of the same unit replaces it."""
    assert lake.read_shared("images", "toy") is None
    lake.write_shared("images", "toy", IMAGE)
    lake.write_shared("images", "toy", {**IMAGE, "how": "pulled"})
    assert lake.read_shared("images", "toy") == {**IMAGE, "how": "pulled"}
    assert lake.all_shared("images") == [{**IMAGE, "how": "pulled"}]


@pytest.mark.parametrize("data", [b"", bytes(range(256)) * 4096])
def test_blobs_come_back(lake: Lake, data: bytes) -> None:
    """A blob is stored once, under its SHA-256, and is read as it was written."""
    blobs = journals.blobs(lake)
    digest = blobs.put(data)
    assert blobs.put(data) == digest
    assert files(lake) == [f"blobs/{digest[:2]}/{digest}"]
    assert blobs.has(digest)
    assert blobs.get(digest) == data


def test_a_report_is_that_of_the_same_rows_in_a_folder(
    store: ObjectStore, url: str, tmp_path: Path
) -> None:
    """A report, its pages, an export of all and the newest experiment equal those of a folder."""
    rows(tmp_path)
    store.upload(tmp_path, url)
    there, here = Lake.existing(url), Lake.existing(tmp_path)
    assert find_newest(there.root) == find_newest(here.root)
    first, second = tmp_path / "there.duckdb", tmp_path / "here.duckdb"
    assert [*relations(None, first, url)] == [*relations(None, second, str(tmp_path))]
    assert report_files.read(there, "trial") == report_files.read(here, "trial")
    text = report_files.write(there, report_files.read(there, "trial"))
    assert text == report_files.write(here, report_files.read(here, "trial"))
    for name in ("index.html", "report.md", "trajectories/won.html"):
        page = report_files.page_path(there, "trial").with_name(name.split("/")[0])
        page = page / "won.html" if "/" in name else page
        assert page.read_text() == (tmp_path / "reports/trial" / name).read_text()


def rows(root: Path) -> LakeBuilder:
    """Write two arms over two instances, and the steps of one attempt."""
    built = LakeBuilder(root)
    built.declare(["a", "b"], ["i1", "i2"])
    built.cell("a", "i1", attempt_id="won")
    built.steps("a", "i1", "won", {})
    built.cell("b", "i1", "unresolved", attempt_id="lost")
    built.cell("b", "i2")
    other = LakeBuilder(root, "other")
    other.declare(["a"], ["i1"])
    return built


@pytest.mark.parametrize("given", ["s3://", "s3:///prefix", "gs://bucket/lake", "file:///tmp/x"])
def test_a_url_that_is_no_lake_is_refused(given: str) -> None:
    """A URL that cannot be a lake is refused with the accepted forms."""
    with pytest.raises(ReportError, match=r"is not a lake: give a folder, or s3://bucket/prefix"):
        Lake.existing(given)


@pytest.fixture
def connect() -> Iterator[Callable[[str], None]]:
    """Yield a function that sets the endpoint for all paths made afterwards."""
    with pytest.MonkeyPatch.context() as patch:

        def to(endpoint: str) -> None:
            patch.setenv("AWS_ENDPOINT_URL", endpoint)
            patch.setenv("AWS_ACCESS_KEY_ID", "tester")
            patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
            forget_connections()

        yield to
    forget_connections()


def says(*arguments: str) -> tuple[int, str]:
    """Run a command that must print exactly one error line. Return its exit code and that line."""
    result = CliRunner().invoke(app, list(arguments))
    assert result.exception is None or isinstance(result.exception, SystemExit)
    [line] = result.stderr.strip().splitlines()
    return result.exit_code, line


def test_a_missing_bucket_is_one_line(store: ObjectStore) -> None:
    """A missing bucket is refused in one line and not created, because its name may be misspelt."""
    with pytest.raises(UsageError, match="cannot write to the lake s3://nobodys-bucket/lake: .*"):
        Lake.open("s3://nobodys-bucket/lake")
    code, line = says("status", "--lake", "s3://nobodys-bucket/lake")
    assert code == 2
    assert "there is no lake at s3://nobodys-bucket/lake" in line
    assert not S3FileSystem(use_listings_cache=False).exists("nobodys-bucket")


def test_refused_credentials_are_one_line(store: ObjectStore, url: str) -> None:
    """Refused credentials are wrong usage when a lake is opened, and infrastructure while a run
    uses it."""
    lake = Lake.open(url)
    store.refuse()
    try:
        with pytest.raises(UsageError, match="cannot write to the lake s3:.*does not exist in our"):
            Lake.open(url)
        with pytest.raises(InfrastructureError, match=r"1\.parquet cannot be written: .*run again"):
            lake.write("predictions", "trial", "a", "1", [PREDICTION])
        with pytest.raises(InfrastructureError, match="cannot be read"):
            lake.has("predictions", "trial", "a", "1")
        with pytest.raises(JournalError, match="cannot keep 4 bytes: .*does not exist in our"):
            journals.blobs(lake).put(b"data")
        code, line = says("status", "trial", "--lake", url)
    finally:
        store.accept()
    assert (code, "cannot be read" in line) == (3, True)


def test_an_unreachable_store_is_one_line(
    connect: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unreachable store is infrastructure, for reading and for writing."""
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    connect(f"http://127.0.0.1:{free_port()}")
    with pytest.raises(InfrastructureError, match="out of reach: Could not connect .*run again"):
        Lake.open("s3://bucket/lake")
    code, line = says("status", "trial", "--lake", "s3://bucket/lake")
    assert (code, "Could not connect to the endpoint" in line) == (3, True)
    with pytest.raises(JournalError, match="cannot be read: Could not connect"):
        journals.blobs(Lake.existing("s3://bucket/lake")).get("0" * 64)


def test_the_journal_has_to_be_named(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store cannot contain a journal, so one has to be named. The line says what to set."""
    monkeypatch.delenv(journals.VARIABLE, raising=False)
    lake = Lake.open(url)
    with pytest.raises(UsageError, match="set DURABENCH_DATABASE_URL=postgresql://"):
        journals.open_journal(lake)
    assert journals.existing_journal(lake) is None
    assert checkup._check_lake(url)[0].level == "problem"
    monkeypatch.setenv(journals.VARIABLE, f"sqlite:///{tmp_path / 'journal.sqlite'}")
    assert journals.open_journal(lake).find("") == []
    assert checkup._check_lake(url)[0].what == f"lake {url}"
    assert (tmp_path / "journal.sqlite").is_file()
