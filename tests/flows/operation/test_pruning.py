"""Pruning removes what it announced, and no work is ever paid for twice."""

import asyncio
import os
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterKey
from prefect.settings import PREFECT_API_URL, temporary_settings
from typer.testing import CliRunner

from agent.journal import Limit
from agent.journal.retention import Retention
from flows.benchmark import benchmark
from flows.cli.app import app
from flows.display.errors import IncompleteRun
from flows.experiments import workspaces
from flows.experiments.declaration import Experiment
from flows.report import SERVED
from flows.server import artifacts
from flows.server.artifacts import artifact_key
from flows.storage import journals, report_files
from flows.storage.journals import VARIABLE, blobs, open_journal
from flows.storage.lake import Lake
from reports.compacted import PER_CELL
from tests.flows.conftest import Finished, trial
from tests.servers.object_store import ObjectStore

pytestmark = [pytest.mark.usefixtures("prefect"), pytest.mark.slow]

ABLE = {"name": "able", "agent": "mini", "model": {"provider": "simulated", "skill": 1}}
GOLD = {"name": "gold", "agent": "gold"}
CUT_OFF = {
    "name": "cut-off",
    "agent": "mini",
    "model": {"provider": "scripted", "replies": [{"command": "sleep 6"}]},
    "options": {"time_limit_s": 2},
}
DAY_S = 24 * 3600


@pytest.fixture(autouse=True)
def _no_other_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make tests use the journal in the lake."""
    monkeypatch.delenv(VARIABLE, raising=False)


@pytest.fixture
def lake(lake_path: str) -> Lake:
    """Return a lake that does not exist yet."""
    return Lake.existing(lake_path)


def one(**changes: Any) -> Experiment:
    """Return an experiment with one cell that pays for its calls and one without calls."""
    return trial(**{"select": {"sample": 1}, "arms": [ABLE, GOLD], "primary": None, **changes})


async def prune(lake: Lake, *arguments: str) -> Result:
    """Run `durabench prune` on everything that has ended."""
    command = ["prune", "--lake", str(lake.root), "--older-than", "0h", *arguments]
    return await asyncio.to_thread(CliRunner().invoke, app, command)


def files(lake: Lake) -> dict[str, tuple[int, int]]:
    """Return size and time of every file, without those that SQLite keeps beside an open
    journal."""
    return {
        str(path.relative_to(lake.root)): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in Path(lake.root).rglob("*")
        if path.is_file() and not path.name.startswith("journal.sqlite-")
    }


def on_disk(lake: Lake) -> int:
    """Return the bytes of all files, including those that SQLite keeps beside the journal."""
    return sum(path.stat().st_size for path in Path(lake.root).rglob("*") if path.is_file())


def make_old(folder: Path) -> None:
    """Set the time of every file in a folder to two days ago."""
    for path in folder.rglob("*"):
        if path.is_file():
            os.utime(path, (time.time() - 2 * DAY_S,) * 2)


def attempt_of(lake: Lake, arm: str) -> str:
    [attempt_id] = lake.units("attempts", "*", arm=arm)
    return attempt_id


def rows(lake: Lake) -> dict[str, list[dict[str, Any]]]:
    """Return the rows from which a report is made."""
    tables = ("attempts", "llm_calls", "steps", "predictions", "evaluations")
    return {table: lake.rows(table, "trial") for table in tables}


def costs(lake: Lake) -> list[Any]:
    """Return the cost of each arm according to its report."""
    built = report_files.read(lake, "trial")
    assert built.audits == ()
    return [(arm.name, arm.resolved, arm.cost, arm.tokens) for arm in built.arms]


def refuse_work(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*arguments: Any, **options: Any) -> None:
        raise AssertionError("a workspace was opened")

    monkeypatch.setattr(workspaces, "_open", refuse)


async def test_pruned_attempts_are_not_paid_for_again(
    finished: Finished, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A prune is announced, then done, and frees the announced space. A later run finds every
    result, even without Prefect's records and the evaluations."""
    await finished.copy(one(), str(lake.root))
    make_old(blobs(lake).root)
    journal, before, told = open_journal(lake), files(lake), costs(lake)
    attempt_id, written = attempt_of(lake, "able"), rows(lake)
    billed = journal.account(attempt_id).billed_usd
    whole = Limit("experiment", "trial", None, None)
    spent, size = journal.spent(whole), on_disk(lake)

    listed = await prune(lake)
    assert listed.exit_code == 0, listed.output
    assert "attempts that ended" in listed.stdout
    assert "would be freed; --remove frees it" in listed.stdout
    assert files(lake) == before
    assert journal.steps(attempt_id)

    removed = await prune(lake, "--remove")
    assert removed.exit_code == 0, removed.output
    assert journal.steps(attempt_id) == []
    assert not [name for name in files(lake) if name.startswith("blobs/")]
    assert on_disk(lake) < size - 50_000
    # The prune removed exactly what it had announced.
    for kind in ("steps", "bodies", "files"):
        [first], [second] = (
            [line for line in said.stdout.splitlines() if line.startswith(kind)]
            for said in (listed, removed)
        )
        assert first == second

    refuse_work(monkeypatch)
    await benchmark(one(), str(lake.root))
    shutil.rmtree(lake.results)  # as if Prefect had no record of the run
    await asyncio.to_thread(shutil.rmtree, Path(lake.root) / "evaluations")
    monkeypatch.undo()
    await benchmark(one(), str(lake.root))
    assert costs(lake) == told
    assert rows(lake) | {"evaluations": []} == written | {"evaluations": []}
    assert journal.account(attempt_id).billed_usd == billed > 0
    assert journal.spent(whole) == spent
    assert "\nsteps      0 attempts" in f"\n{(await prune(lake)).stdout}"


@pytest.mark.full
async def test_an_interrupted_prune_does_no_harm(
    finished: Finished, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a prune that stops between two attempts the lake is consistent, a run finds every
    result, and the next prune does the rest."""
    declared, real = one(), Retention.prune
    await finished.copy(declared, str(lake.root))
    make_old(blobs(lake).root)
    told = costs(lake)

    def stopped(retention: Retention, attempt_id: str) -> None:
        real(retention, attempt_id)
        raise KeyboardInterrupt

    monkeypatch.setattr(Retention, "prune", stopped)
    said = await prune(lake, "--remove")
    assert (said.exit_code, "run the same command again" in said.stderr) == (3, True)
    monkeypatch.undo()
    journal = open_journal(lake)
    left = [each for each in journal.retention.holdings() if not each.is_pruned]
    assert len(left) == 1
    refuse_work(monkeypatch)
    await benchmark(declared, str(lake.root))
    assert costs(lake) == told
    assert "1 attempt that ended" in (await prune(lake, "--remove")).stdout
    await benchmark(declared, str(lake.root))
    assert costs(lake) == told


@pytest.mark.full
async def test_steps_stay_while_the_lake_lacks_rows_of_them(finished: Finished, lake: Lake) -> None:
    """Steps stay in the journal while one of their tables lacks rows in the lake, or while the
    attempt is only interrupted."""
    await finished.copy(one(), str(lake.root))
    attempt_id = attempt_of(lake, "able")
    steps = open_journal(lake).steps(attempt_id)
    for table in ("attempts", "llm_calls", "steps", "predictions"):
        [file] = Path(lake.root).glob(f"{table}/*/arm=able/*.parquet")
        file.rename(Path(lake.root) / "elsewhere")
        said = await prune(lake, "--remove", "--only", "steps")
        assert "; not of 1, because" in said.stdout, table
        assert open_journal(lake).steps(attempt_id) == steps, table
        (Path(lake.root) / "elsewhere").rename(file)
    [row] = lake.find("attempts", attempt_id)
    lake.write("attempts", "trial", "able", attempt_id, [row | {"outcome": "interrupted"}])
    assert "not of 1, because" in (await prune(lake, "--remove", "--only", "steps")).stdout
    assert open_journal(lake).steps(attempt_id)


@pytest.mark.full
async def test_trace_fork_and_export_say_that_steps_were_pruned(
    finished: Finished, lake: Lake
) -> None:
    """After a prune, `trace` shows what the lake has: all but who held the attempt."""
    await finished.copy(one(), str(lake.root))
    await benchmark(one(arms=[ABLE, CUT_OFF]), str(lake.root))
    attempt_id, cut_off = attempt_of(lake, "able"), attempt_of(lake, "cut-off")

    async def run(*arguments: str) -> Result:
        command = [*arguments, "--lake", str(lake.root)]
        return await asyncio.to_thread(CliRunner().invoke, app, command)

    before = {each: await run("trace", each) for each in (attempt_id, cut_off)}
    assert "cut off: " in before[cut_off].stdout
    assert (await prune(lake, "--remove")).exit_code == 0
    for each, there in before.items():
        traced = await run("trace", each[:12])
        first, *others = traced.stdout.splitlines()
        assert "the steps were pruned from the journal on" in first
        assert others == re.sub(r"; held by .*", "", there.stdout).splitlines()
    forked = await run("fork", attempt_id, "--at", "2")
    exported = await run("export", "trial", "--trajectories")
    for refused in (forked, exported):
        [line] = refused.stderr.splitlines()
        assert (refused.exit_code, "were pruned" in line) == (2, True), line


@pytest.mark.full
async def test_an_unfinished_attempt_keeps_everything(
    finished: Finished, lake: Lake, tmp_path: Path
) -> None:
    """An attempt that a budget stopped keeps its steps and files. It resumes, and pays no more than
    one that was never stopped."""
    undisturbed = await finished.copy(one(), str(tmp_path / "undisturbed"))
    with pytest.raises(IncompleteRun, match="stopped by a budget"):
        await benchmark(one(arms=[ABLE], budgets={"attempt": {"calls": 6}}), str(lake.root))
    make_old(blobs(lake).root)
    attempt_id, before = attempt_of(lake, "able"), files(lake)
    steps = open_journal(lake).steps(attempt_id)
    assert any(step.tree for step in steps)
    said = await prune(lake, "--remove")
    assert "0 attempts that ended" in said.stdout
    assert "0 files that no step refers to" in said.stdout
    assert {n: s for n, s in files(lake).items() if n.startswith("blobs/")} == {
        name: state for name, state in before.items() if name.startswith("blobs/")
    }
    assert open_journal(lake).steps(attempt_id) == steps
    await benchmark(one(arms=[ABLE], budgets={"attempt": {"calls": 100}}), str(lake.root))
    accounts = [open_journal(each).account(attempt_id) for each in (lake, undisturbed)]
    assert accounts[0] == accounts[1]
    assert [row["outcome"] for row in lake.find("attempts", attempt_id)] == ["submitted"]


@pytest.mark.full
async def test_nothing_of_a_running_experiment_is_removed(finished: Finished, lake: Lake) -> None:
    """While one attempt is running, the other attempts of its experiment keep their steps, all
    bodies stay, and the experiment cannot be removed."""
    await finished.copy(one(), str(lake.root))
    make_old(blobs(lake).root)
    journal, before = open_journal(lake), files(lake)
    lease = journal.acquire(attempt_of(lake, "gold"), "somebody", 300)
    said = await prune(lake, "--remove", "--only", "steps", "--only", "bodies")
    assert said.exit_code == 0, said.output
    assert "0 attempts that ended" in said.stdout
    assert "an attempt is running" in said.stdout
    refused = await prune(lake, "--experiment", "trial", "--results", "--remove")
    assert (refused.exit_code, "is running" in refused.stderr) == (2, True)
    journal.release(lease)
    assert files(lake) == before
    assert journal.steps(attempt_of(lake, "able"))


@pytest.mark.full
async def test_young_files_and_those_of_others_stay(finished: Finished, lake: Lake) -> None:
    """Young files, the operator's hidden files and results of gradings stay. Older bodies without a
    step, leftovers of killed writers and results without a row are removed."""
    await finished.copy(one(), str(lake.root))
    root, store = Path(lake.root), blobs(lake)
    young, old = store.put(b"young"), store.put(b"old")
    results = Path(lake.results)
    left = [
        root / f".writable-{'0' * 32}",
        root / "attempts" / f".{'a' * 32}.{'0' * 32}",
        store.root / old[:2] / ".tmp0a1b2",
        store.root / old[:2] / f".{old}.{'0' * 32}",
        results / ("1" * 32),
        results / f"attempt-{'2' * 64}",
    ]
    kept = [
        root / ".gitignore",
        root / ".htaccess",
        results / f"evaluation-{'2' * 64}",
        store.root / "ab" / ".keep",
    ]
    kept[-1].parent.mkdir(exist_ok=True)
    for path in [*left, *kept]:
        path.write_text("x")
    make_old(root)
    os.utime(store.root / young[:2] / young)
    os.utime(left[0])
    said = await prune(lake, "--remove", "--only", "files", "--only", "bodies")
    assert f"{len(left) - 1} left by killed writers" in said.stdout
    assert "1 file that no step refers to: 3 bytes" in said.stdout
    assert [path for path in left if path.exists()] == left[:1]
    assert all(path.exists() for path in kept)
    assert (store.has(young), store.has(old)) == (True, False)


@pytest.mark.full
async def test_a_named_experiment_is_removed(
    finished: Finished, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Removing a named experiment deletes its rows with their copies, reports, attempts and bills,
    but no other experiment's. A later run pays again."""
    await finished.copy(one(), str(lake.root))
    copy = Path(lake.root, ".copies/attempts/experiment=trial.parquet")
    copy.parent.mkdir(parents=True)
    copy.write_bytes(b"what an earlier version kept")
    await benchmark(one(name="other", arms=[GOLD]), str(lake.root))
    make_old(blobs(lake).root)
    journal, before = open_journal(lake), files(lake)
    assert str(copy.relative_to(lake.root)) in before
    paid = journal.spent(Limit("experiment", "trial", None, None))
    named = ["--experiment", "trial", "--results"]
    too_young = await prune(lake, *named, "--remove", "--older-than", "1h")
    assert (too_young.exit_code, "smaller --older-than" in too_young.stderr) == (2, True)
    listed = await prune(lake, *named)
    assert f"pays again what was billed, ${paid[0]:,.4f}" in listed.stdout
    assert files(lake) == before
    removed = await prune(lake, *named, "--remove")
    assert removed.exit_code == 0, removed.output
    left = files(lake)
    assert [name for name in left if "trial" in name] == []
    bodies = {name.rpartition("/")[2] for name in left if name.startswith("blobs/")}
    assert bodies <= journal.retention.references().names
    assert len(bodies) < sum(name.startswith("blobs/") for name in before)
    assert {name for name in before if "other" in name} <= left.keys()
    assert {attempt.experiment for attempt in journal.find("")} == {"other"}
    assert lake.experiments() == ["other"]
    assert (await prune(lake, *named)).exit_code == 2

    await benchmark(one(), str(lake.root))
    assert journal.spent(Limit("experiment", "trial", None, None)) == paid
    assert costs(lake)[0][1] == 1


@pytest.mark.full
async def test_the_latest_version_of_each_artifact_stays(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The latest version of each artifact stays on the server. Without a server, a line says so."""
    monkeypatch.setenv(SERVED, "http://127.0.0.1:8100")
    declared = one(name="published", arms=[GOLD])
    for _ in range(2):
        await benchmark(declared, str(lake.root))

    async def versions() -> dict[str, list[Any]]:
        async with get_client() as client:
            return {
                kind: await client.read_artifacts(
                    artifact_filter=ArtifactFilter(
                        key=ArtifactFilterKey(any_=[artifact_key(kind, "published", lake_id)])
                    )
                )
                for kind in artifacts.KINDS
            }

    lake_id = journals.lake_id(lake)
    before = await versions()
    assert {kind: len(found) for kind, found in before.items()} == dict.fromkeys(before, 2)
    chosen = ["--only", "artifacts", "--experiment", "published"]
    young = await prune(lake, *chosen, "--remove", "--older-than", "1h")
    assert "0 superseded versions" in young.stdout
    assert "4 superseded versions" in (await prune(lake, *chosen)).stdout
    assert await versions() == before
    assert (await prune(lake, *chosen, "--remove")).exit_code == 0
    for kind, found in (await versions()).items():
        assert found == [max(before[kind], key=lambda artifact: artifact.created)]
    with temporary_settings({PREFECT_API_URL: None}):
        said = await asyncio.to_thread(
            CliRunner().invoke, app, ["prune", "--only", "artifacts", "--lake", str(lake.root)]
        )
    assert "PREFECT_API_URL is not set" in said.stdout
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}):
        said = await asyncio.to_thread(
            CliRunner().invoke, app, ["prune", "--only", "artifacts", "--lake", str(lake.root)]
        )
    assert (said.exit_code, said.stderr.count("\n")) == (3, 1), said.output


@pytest.mark.full
async def test_a_lake_on_an_object_store_is_pruned_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, set_timings: Callable[..., None]
) -> None:
    """On an object store, too, bodies are pruned with the steps, results stay, and a named
    experiment is removed. Objects cannot be backdated, so the grace period is off."""
    monkeypatch.setenv(VARIABLE, f"sqlite:///{tmp_path / 'journal.sqlite'}")
    set_timings(prune_grace_s=0.0)
    with ObjectStore() as store:
        url = store.create_lake()
        await benchmark(one(arms=[ABLE]), url)
        lake, before = Lake.existing(url), store.names(url)
        told = costs(lake)
        listed = await prune(lake)
        assert listed.exit_code == 0, listed.output
        assert store.names(url) == before
        removed = await prune(lake, "--remove")
        assert removed.exit_code == 0, removed.output
        bodies = [name for name in before if name.startswith("blobs/")]
        assert f"{len(bodies)} files that no step refers to" in removed.stdout
        objects = store.names(url)
        assert not set(bodies) & set(objects)
        assert len([name for name in objects if "/compacted/" in name]) == len(PER_CELL)
        assert len(objects) < len(before) - len(bodies)
        refuse_work(monkeypatch)
        await benchmark(one(arms=[ABLE]), url)
        assert costs(lake) == told
        whole = await prune(lake, "--experiment", "trial", "--results", "--remove")
        assert whole.exit_code == 0, whole.output
        assert {name.partition("/")[0] for name in store.names(url)} == {".journal"}


@pytest.mark.parametrize(
    ("arguments", "because"),
    [
        (["--older-than", "soon"], "write it like 30d or 12h"),
        (["--results"], "name it with --experiment"),
        (["--experiment", "trail"], "did you mean trial?"),
        (["--experiment", "*", "--results", "--remove"], "no experiment '*'"),
        (["--experiment", "trial", "--only", "images"], "images belong to no experiment"),
        (
            ["--only", "costs"],
            "choose from steps, rows, bodies, reports, files, images, mirrors, artifacts",
        ),
        (["--lake", "nowhere"], "there is no lake at"),
    ],
)
async def test_an_invalid_request_is_refused_in_one_line(
    lake: Lake, arguments: list[str], because: str
) -> None:
    """An invalid request is refused in one line with exit code 2, and nothing is removed."""
    folder = Path(lake.root) / "attempts" / "experiment=trial" / "arm=a"
    folder.mkdir(parents=True)
    (folder / "1.parquet").touch()
    refused = await prune(lake, *arguments)
    [line] = refused.stderr.splitlines()
    assert (refused.exit_code, because in line) == (2, True), line
    assert list(files(lake)) == ["attempts/experiment=trial/arm=a/1.parquet"]
