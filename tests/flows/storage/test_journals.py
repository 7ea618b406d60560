"""A lake belongs to one journal: mixed-up settings are refused before anything is paid for or
written."""

import json
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from typer.testing import CliRunner

from agent.journal import Journal
from flows.cli.app import app
from flows.display.errors import Mismatch
from flows.shard import shard
from flows.solve import solve
from flows.storage import journals
from flows.storage.journals import VARIABLE
from flows.storage.lake import Lake
from tests.flows.conftest import trial
from tests.servers.object_store import ObjectStore
from tests.servers.postgres import PostgresServer

GOLD = [{"name": "gold", "agent": "gold"}]
RUN = "run"


@dataclass
class Settings:
    """The two settings as one machine has them."""

    lake: str
    url: str | None = None
    """None: not set."""


@pytest.fixture(autouse=True)
def _nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(VARIABLE, raising=False)
    journals.forget()
    yield
    journals.forget()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.full)])
def new_url(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Return a function that names new databases, on one PostgreSQL server or as files in one
    folder."""
    if request.param == "sqlite":
        numbers = iter(range(100))
        return lambda: f"sqlite:///{tmp_path}/journal-{next(numbers)}.sqlite"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.create_database


@pytest.fixture
def enter(monkeypatch: pytest.MonkeyPatch) -> Callable[[Settings], Lake]:
    """Return a function that applies settings as a new process of that machine would."""

    def take_over(settings: Settings) -> Lake:
        journals.forget()
        monkeypatch.delenv(VARIABLE, raising=False)
        if settings.url is not None:
            monkeypatch.setenv(VARIABLE, settings.url)
        return Lake.existing(settings.lake)

    return take_over


Enter = Callable[[Settings], Lake]


def begin(lake: Lake, experiment: str = "trial") -> Journal:
    """Open lake and journal as every run does before anything else."""
    Lake.open(lake.root)
    journals.claim(lake, experiment)
    return journals.open_journal(lake)


def files(folder: Path) -> set[Path]:
    """Return all paths, without those that SQLite keeps beside an open file."""
    return {path for path in folder.rglob("*") if not path.name.endswith(("-wal", "-shm"))}


def refusal(lake: Lake, what: Callable[[Lake], object] = begin) -> str:
    with pytest.raises(Mismatch) as refused:
        what(lake)
    assert "\n" not in str(refused.value)
    return str(refused.value)


WAYS = {
    "the variable is set on one machine alone": (True, False),
    "the variable is unset on one machine alone": (False, True),
    "another database on the same server, another file": (True, True),
}


@pytest.mark.parametrize("way", WAYS)
def test_another_journal_is_refused(
    way: str, new_url: Callable[[], str], enter: Enter, tmp_path: Path
) -> None:
    """A lake refuses another journal for runs and for reading, and the line names both. The first
    journal is still accepted."""
    first, second = (
        Settings(str(tmp_path / "lake"), new_url() if is_set else None) for is_set in WAYS[way]
    )
    begin(enter(first))
    before = files(tmp_path)
    for what in (begin, journals.existing_journal):
        told = refusal(enter(second), what)
        assert str(tmp_path / "lake") in told
        assert VARIABLE in told
        assert "--adopt-journal" in told
        for settings in (first, second):
            if settings.url:
                assert settings.url.replace("+psycopg", "") in told
    assert files(tmp_path) == before
    assert begin(enter(first)).find("") == []


@pytest.mark.full
def test_no_password_is_revealed(enter: Enter, postgres: PostgresServer, tmp_path: Path) -> None:
    """Neither the error nor the binding contains the password of a journal."""
    urls = [
        postgres.create_database().replace("bench@", "bench:geheim@"),
        postgres.create_database() + "?password=geheim",
    ]
    begin(enter(Settings(str(tmp_path / "lake"), urls[0])))
    told = refusal(enter(Settings(str(tmp_path / "lake"), urls[1])))
    assert "geheim" not in told
    assert "geheim" not in (tmp_path / "lake/.journal/binding.json").read_text()


def test_an_experiment_of_another_lake_is_refused(
    new_url: Callable[[], str], enter: Enter, tmp_path: Path
) -> None:
    """Two lakes with one journal cannot share an experiment, because its steps and their files
    belong together."""
    url = new_url()
    begin(enter(Settings(str(tmp_path / "one"), url)))
    told = refusal(enter(Settings(str(tmp_path / "two"), url)))
    assert f"belongs to the lake {tmp_path}/one" in told
    assert f"this is the lake {tmp_path}/two" in told
    begin(enter(Settings(str(tmp_path / "two"), url)), "another experiment")


@pytest.mark.full
@pytest.mark.parametrize("where", ["folder", "store"])
def test_concurrent_first_runs_bind_one_journal(
    where: str, new_url: Callable[[], str], tmp_path: Path
) -> None:
    """If runs with different journals start at the same moment on a new lake, exactly one journal
    is bound."""
    with ObjectStore() as store:
        for number in range(5):
            root = str(tmp_path / f"lake-{number}") if where == "folder" else store.create_lake()
            urls, barrier = [new_url() for _ in range(4)], Barrier(4)
            lakes = [Lake.open(root) for _ in urls]
            opened = [Journal.open(url) for url in urls]

            def bind(index: int) -> str:
                barrier.wait()  # noqa: B023 - used within the turn
                lake, journal = lakes[index], opened[index]  # noqa: B023
                return journals.bind(lake, journal.id, urls[index]).journal_id  # noqa: B023

            with ThreadPoolExecutor(4) as pool:
                found = set(pool.map(bind, range(4)))
            assert len(found) == 1
            assert found < {journal.id for journal in opened}
            for journal in opened:
                journal.close()
        if where == "folder":
            assert [path.name for path in (tmp_path / "lake-0").rglob("*")] == [
                ".journal",
                "binding.json",
            ]


async def run_gold(lake: str, **changes: Any) -> None:
    declared = trial(arms=GOLD, select={"sample": 1}, primary=None, **changes)
    await solve(declared, *ids(declared), lake=lake, grade=False)


def ids(declared: Any) -> tuple[str, str]:
    from flows.experiments.plan import load

    return load(declared)[0].instance_id, "gold"


@pytest.mark.usefixtures("prefect")
class TestWithAttempts:
    """Lakes in which attempts have run."""

    async def test_a_lake_moves_with_the_journal_inside(self, enter: Enter, tmp_path: Path) -> None:
        """A copied lake works with the journal inside it, and is refused without that journal."""
        enter(Settings(str(tmp_path / "lake")))
        await run_gold(str(tmp_path / "lake"))
        for name in ("moved", "bare"):
            shutil.copytree(tmp_path / "lake", tmp_path / name)
        (tmp_path / "bare/journal.sqlite").unlink()
        moved = begin(enter(Settings(str(tmp_path / "moved"))))
        assert len(moved.find("")) == 1
        told = refusal(enter(Settings(str(tmp_path / "bare"))))
        assert f"sqlite:///{tmp_path}/bare/journal.sqlite, and there is another or none" in told
        assert not (tmp_path / "bare/journal.sqlite").exists()

    async def test_commands_refuse_with_one_line(self, enter: Enter, tmp_path: Path) -> None:
        """Commands that need the journal refuse in one line with exit code 2, and write nothing."""
        lake = str(tmp_path / "lake")
        enter(Settings(lake, f"sqlite:///{tmp_path}/journal.sqlite"))
        await run_gold(lake)
        enter(Settings(lake))
        before = files(tmp_path)
        [attempt] = Lake.existing(lake).units("attempts", "*")
        for arguments in (
            ["trace", attempt],
            ["fork", attempt, "--at", "1"],
            ["prune", "--remove"],
            ["export", "trial", "--trajectories"],
        ):
            done = CliRunner().invoke(app, [*arguments, "--lake", lake])
            [line] = done.stderr.strip().splitlines()
            assert done.exit_code == 2, done.output
            assert f"set {VARIABLE}=sqlite:///{tmp_path}/journal.sqlite" in line
        assert files(tmp_path) == before


@pytest.mark.usefixtures("prefect")
class TestOrderedShards:
    """A worker's response to a shard that a benchmark with the same or other settings orders."""

    @pytest.fixture
    def ordered(self, enter: Enter, new_url: Callable[[], str], tmp_path: Path) -> Settings:
        """Return the settings of a benchmark that has bound its lake."""
        settings = Settings(str(tmp_path / "lake"), new_url())
        begin(enter(settings))
        return settings

    async def refused(self, settings: Settings, home: journals.Home, enter: Enter) -> str:
        lake = enter(settings)
        declared = trial(arms=GOLD, select={"sample": 1}, primary=None)
        state = await shard(declared, RUN, lake=settings.lake, home=home, return_state=True)
        assert (state.name, state.type.name) == ("Refused", "FAILED")
        assert lake.units("attempts", "*") == []
        return str(state.message)

    async def test_every_other_worker_refuses(
        self, ordered: Settings, enter: Enter, new_url: Callable[[], str], tmp_path: Path
    ) -> None:
        """A worker with another lake, another journal or an old copy of the lake refuses the cell
        and creates no file."""
        shutil.copytree(tmp_path / "lake", tmp_path / "copy")
        elsewhere = Settings(str(tmp_path / "elsewhere"), new_url())
        begin(enter(elsewhere))
        home = journals.home(enter(ordered))
        nowhere = str(tmp_path / "nowhere")
        others = {
            "no variable": Settings(ordered.lake),
            "another journal": Settings(ordered.lake, new_url()),
            "no lake": Settings(nowhere, ordered.url),
            "another lake": Settings(elsewhere.lake, ordered.url),
            "both others": elsewhere,
            "a copy of the lake": Settings(str(tmp_path / "copy"), ordered.url),
        }
        before = files(tmp_path)
        for way, settings in others.items():
            told = await self.refused(settings, home, enter)
            assert "the run that ordered this cell has its" in told, way
            assert ("journal at" in told) == (settings.lake == ordered.lake), way
        assert files(tmp_path) == before

    @pytest.mark.full
    async def test_a_copy_of_the_journal_is_refused(self, enter: Enter, tmp_path: Path) -> None:
        """After a lake and its journal were copied together, a worker with either copy is
        refused."""
        begin(enter(Settings(str(tmp_path / "lake"))))
        (tmp_path / "copies").mkdir()
        shutil.copytree(tmp_path / "lake", tmp_path / "copies/lake")
        for path in (tmp_path / "lake").glob("journal.sqlite*"):
            shutil.copy(path, tmp_path / "copies")
        home = journals.home(enter(Settings(str(tmp_path / "lake"))))
        told = await self.refused(Settings(str(tmp_path / "copies/lake")), home, enter)
        assert "has a copy of it" in told
        url = f"sqlite:///{tmp_path}/copies/journal.sqlite"
        told = await self.refused(Settings(str(tmp_path / "lake"), url), home, enter)
        assert "has a copy of it" in told
        assert "copies/journal.sqlite" in told


def test_a_lake_adopts_another_journal(
    new_url: Callable[[], str], enter: Enter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`doctor --adopt-journal` binds the lake to the journal in use and says what that costs. The
    old journal is then refused, in the same process, too."""
    old, new = (Settings(str(tmp_path / "lake"), new_url()) for _ in range(2))
    begin(enter(old))
    refusal(enter(new))
    lake = enter(old)
    begin(lake)
    monkeypatch.setenv(VARIABLE, str(new.url))
    done = CliRunner().invoke(app, ["doctor", "--adopt-journal", "--lake", new.lake])
    monkeypatch.setenv(VARIABLE, str(old.url))
    refusal(lake)
    assert "paid for again" in done.stdout
    for settings in (old, new):
        assert str(settings.url).replace("+psycopg", "") in done.stdout
    lake_id = json.loads((tmp_path / "lake/.journal/binding.json").read_text())["lake_id"]
    begin(enter(new))
    refusal(enter(old))
    assert journals.home(enter(new)).lake_id == lake_id


def test_a_damaged_binding_is_one_line(enter: Enter, tmp_path: Path) -> None:
    """A damaged binding is refused in one line, and adopting the journal repairs it."""
    settings = Settings(str(tmp_path / "lake"))
    begin(enter(settings))
    binding = tmp_path / "lake/.journal/binding.json"
    binding.write_text("{")
    assert "is damaged" in refusal(enter(settings))
    lake = enter(settings)
    before, after, taken = journals.adopt(lake)
    assert (before, taken) == (None, 1)
    assert journals.home(lake).lake_id == after.lake_id
    begin(enter(settings))
