"""Compaction changes the number of files and nothing that anybody reads, wherever it is killed."""

import itertools
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest

from agent.journal import Journal
from flows.experiments.cells import derive_audit_key
from flows.operation import compaction
from flows.operation.compaction import Compaction, find_ended
from flows.storage import whole_files
from flows.storage.journals import blobs, open_journal
from flows.storage.lake import Lake
from reports.compacted import PER_CELL
from reports.lake import open_lake
from tests.agent.journal.workers import attempt
from tests.archives import unpack
from tests.flows.test_lake_of_0_1 import FOLDER
from tests.reports.lake_fixture import LakeBuilder, attempt_row, evaluation_row
from tests.servers.object_store import ObjectStore

ARMS, INSTANCES = ("a", "b"), ("i1", "i2")
UNFINISHED = "b-i2"
"""The cell that ended as infrastructure: a later run writes it again."""


class Killed(BaseException):
    """The program was killed."""


def digest(*names: str) -> str:
    return sha256(" ".join(names).encode()).hexdigest()


def cells() -> Iterator[tuple[str, str, str, str]]:
    """Yield arm, instance, attempt and the key of its verdict. Arms share those at `i1`."""
    for arm, instance in itertools.product(ARMS, INSTANCES):
        shared = (instance,) if instance == "i1" else (arm, instance)
        yield arm, instance, digest(arm, instance)[:32], digest("verdict", *shared)


def fill(root: Path) -> None:
    """Write an experiment with four cells, and the results that Prefect keeps of them."""
    builder = LakeBuilder(root)
    builder.declare(ARMS, INSTANCES)
    (root / ".results").mkdir()
    for arm, instance, unit, key in cells():
        cell = {"attempt_id": unit, "instance_id": instance}
        broken = f"{arm}-{instance}" == UNFINISHED
        outcome = {"outcome": "infrastructure"} if broken else {}
        builder.predict(arm, instance, unit, unit=unit)
        builder.steps(arm, instance, unit, {}, {})
        builder.write("llm_calls", arm, [builder.call(**cell, seq=n) for n in range(2)], unit)
        builder.write("attempts", arm, [attempt_row(**cell, **outcome)], unit)
        builder.write("evaluations", arm, [evaluation_row(**cell)], f"{unit}-{key[:12]}")
        for name in result_names(arm, instance):
            (root / ".results" / name).touch()


def result_names(arm: str, instance: str) -> list[str]:
    [(unit, key)] = [(c[2], c[3]) for c in cells() if c[:2] == (arm, instance)]
    audits = [f"audit-{derive_audit_key(key)}"] if instance == "i2" else []
    return [f"attempt-{unit}{digest('rest')[:32]}", f"evaluation-{key}", *audits]


def audit(root: Path) -> None:
    """Write a grading again, as an audit does after the compaction, and a further cell."""
    builder = LakeBuilder(root)
    for arm, instance, unit, key in cells():
        if instance == "i2":
            row = evaluation_row(attempt_id=unit, instance_id=instance, gradings=2)
            builder.write("evaluations", arm, [row], f"{unit}-{key[:12]}")
    late = digest("late")[:32]
    builder.write("attempts", "a", [attempt_row(attempt_id=late, instance_id="i1")], late)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    url = f"sqlite:///{tmp_path / 'journal.sqlite'}"
    opened = Journal.open(url, blobs=blobs(Lake.existing(tmp_path / "lake")))
    yield opened
    opened.close()


def compact(lake: Lake, journal: Journal, experiment: str = "trial") -> Compaction:
    """Compact every attempt of an experiment."""
    turns = journal.retention.count_turns()
    assert turns is not None
    pass_ = Compaction(lake, {experiment: set(lake.units("attempts", "*", experiment))})
    assert pass_.run(journal, turns)
    return pass_


def look(lake: Lake, experiment: str = "trial") -> dict[str, Any]:
    """Return everything that readers see of an experiment."""
    seen: dict[str, Any] = {}
    connection = open_lake(lake.root, experiment)
    for table in PER_CELL:
        places = lake.places(table, "*", experiment)
        seen[table] = lake.rows(table, experiment), places
        seen[f"{table} by unit"] = [lake.read(table, *place) for place in places]
        assert all(lake.has(table, *place) for place in places)
        assert [lake.find(table, place[2], experiment) for place in places]
        query = f"select * from {table} order by all"
        seen[f"{table} in SQL"] = connection.execute(query).fetchall()
    connection.close()
    for arm, instance, unit, _ in cells():
        for name in result_names(arm, instance):
            table = "attempts" if name.startswith("attempt") else "evaluations"
            assert lake.has_result_of(table, "trial", arm, name) == lake.has(
                "attempts", "trial", arm, unit
            )
    return seen


def read_outside(root: Path) -> dict[str, Any]:
    """Return what other programs read from the files."""
    seen: dict[str, Any] = {}
    for table in PER_CELL:
        files = f"read_parquet('{root}/{table}/**/*.parquet', hive_partitioning = true)"
        seen[table] = duckdb.execute(f"from {files} order by all").fetchall()
        seen[f"{table} in pandas"] = len(pd.read_parquet(root / table))
    return seen


def count(root: Path) -> int:
    return sum(
        path.is_file() for name in (*PER_CELL, ".results") for path in (root / name).rglob("*")
    )


def copy(root: Path, name: str) -> Lake:
    """Return a lake with the same files at another place: what was read there is not remembered."""
    shutil.copytree(root, root.with_name(name))
    return Lake.existing(root.with_name(name))


def kill_at(operation: int, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Make a write or a removal of a file and all later ones fail. Return a count of them."""
    numbers = itertools.count(1)
    done = [0]
    for name in ("put", "delete"):
        real = getattr(whole_files, name)

        def act(*arguments: Any, real: Callable[..., None] = real) -> None:
            if next(numbers) >= operation:
                raise Killed
            real(*arguments)
            done[0] += 1

        monkeypatch.setattr(whole_files, name, act)
    return lambda: done[0]


@pytest.mark.parametrize("begun", [pytest.param("new", marks=pytest.mark.full), "rewritten"])
def test_nothing_is_lost_or_doubled_wherever_it_is_killed(
    begun: str, journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After any number of writes and removals all readers see what they saw before, and the next
    compaction ends with the same few files."""
    origin = tmp_path / "lake"
    fill(origin)
    if begun == "rewritten":
        compact(Lake.existing(origin), journal)
        audit(origin)
    before, few = look(Lake.existing(origin)), set[str]()
    outside = None if begun == "rewritten" else read_outside(origin)
    for operation in itertools.count(1):
        lake = copy(origin, f"lake-{operation}")
        done = kill_at(operation, monkeypatch)
        try:
            compact(lake, journal)
            is_killed = False
        except Killed:
            is_killed = True
        monkeypatch.undo()
        assert look(lake) == before, done()
        compact(lake, journal)
        root = tmp_path / f"lake-{operation}"
        assert look(lake) == before
        few.add(str(count(root)))
        seen = read_outside(root)
        assert seen == (outside or seen)
        assert all(len(seen[table]) == len(before[table][0]) for table in PER_CELL)
        outside = seen
        if not is_killed:
            break
    # A file for each table and arm, and what is not final: five rows and its results.
    assert len(few) == 1
    assert operation > 5


def test_an_attempt_that_starts_meanwhile_stops_it(journal: Journal, tmp_path: Path) -> None:
    """No file is removed then, because the attempt may write one of the same name."""
    lake = Lake.existing(tmp_path / "lake")
    fill(tmp_path / "lake")
    before = look(lake)
    turns = journal.retention.count_turns()
    assert turns is not None
    pass_ = Compaction(lake, {"trial": set(lake.units("attempts", "*"))})
    journal.start(attempt("a1"))
    journal.release(journal.acquire("a1", "worker", 30))
    own = set((tmp_path / "lake").rglob("arm=*/*.parquet"))
    assert not pass_.run(journal, turns)
    assert set((tmp_path / "lake").rglob("arm=*/*.parquet")) == own
    assert look(lake) == before


def test_two_at_once_do_no_harm(journal: Journal, tmp_path: Path) -> None:
    """Of two compactions at once neither removes what only the other has written."""
    fill(tmp_path / "lake")
    before = look(Lake.existing(tmp_path / "lake"))
    for number in range(5):
        lake = copy(tmp_path / "lake", f"lake-{number}")
        passes = [Compaction(lake, {"trial": set(lake.units("attempts", "*"))}) for _ in range(2)]
        with ThreadPoolExecutor(2) as threads:
            list(threads.map(lambda pass_: pass_.run(journal, 0), passes))
        assert look(lake) == before
        compact(lake, journal)
        assert look(lake) == before


def test_large_arms_have_several_files(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file has a limited number of units, and of bytes."""
    monkeypatch.setattr(compaction, "UNITS", 1)
    fill(tmp_path / "lake")
    lake = Lake.existing(tmp_path / "lake")
    before = look(lake)
    assert compact(lake, journal).written == 5 * 3
    monkeypatch.setattr(compaction, "UNITS", 1000)
    monkeypatch.setattr(compaction, "_BYTES", 0)
    audit(tmp_path / "lake")
    compact(lake, journal)
    assert len(lake.rows("attempts", "trial")) == len(before["attempts"][0]) + 1


def test_a_lake_on_an_object_store_is_compacted_alike(journal: Journal, tmp_path: Path) -> None:
    fill(tmp_path / "lake")
    here = Lake.existing(tmp_path / "lake")
    before = look(here)
    with ObjectStore() as store:
        url = store.create_lake()
        store.upload(tmp_path / "lake", url)
        there = Lake.existing(url)
        pass_ = compact(there, journal)
        assert pass_.written == 2 * len(PER_CELL)
        assert look(there) == before
        compact(here, journal)
        assert len(store.versions(url)) == sum(
            path.is_file() for path in (tmp_path / "lake").rglob("*")
        )


def test_rows_of_an_earlier_release_stay_as_they_are(tmp_path: Path) -> None:
    """They lack columns, and are compacted without them."""
    unpack(FOLDER / "lake.tar.xz", tmp_path / "lake")
    lake = Lake.existing(tmp_path / "lake")
    journal = open_journal(lake)
    ended = find_ended(journal.retention.holdings(), 0)
    before = {table: lake.rows(table, "legacy") for table in PER_CELL}
    pass_ = Compaction(lake, ended)
    files = pass_.count_files()
    assert pass_.run(journal, journal.retention.count_turns() or 0)
    assert pass_.written < files
    assert {table: lake.rows(table, "legacy") for table in PER_CELL} == before
