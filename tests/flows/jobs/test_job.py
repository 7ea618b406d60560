"""A task in a repository becomes a verified draft pull request, once."""

import asyncio
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flows.cli.app import app
from flows.display.errors import GateFailed
from flows.jobs.approving import approve
from flows.jobs.job import job
from flows.jobs.request import API
from flows.storage.lake import Lake
from tests.flows.jobs.conftest import BREAK, FILES, NAME, REPAIR, request, row_of
from tests.servers.forge import Forge

pytestmark = [pytest.mark.usefixtures("prefect"), pytest.mark.slow]


async def test_a_task_becomes_a_draft_pull_request(forge: Forge, lake_path: str) -> None:
    """The branch has one commit on the base. The body has task, changes and evidence."""
    base = forge.branches(NAME)["main"]
    job_id = await job(request(REPAIR), lake_path)
    row = row_of(lake_path)
    branch = f"durabench/add-don-t-subtract-{job_id}"
    assert (row["state"], row["verdict"], row["branch"]) == ("done", "nothing_broke", branch)
    assert forge.branches(NAME) == {"main": base, branch: row["commit"]}
    shown = forge.git(NAME, "log", "--format=%an <%ae> %s", f"main..{branch}")
    assert shown == "Durabench <jobs@durabench.invalid> Add, don't subtract."
    assert forge.git(NAME, "show", f"{branch}:calc.py") == "def add(a, b):\n    return a + b"
    [pull] = forge.pulls[NAME]
    assert (pull["draft"], pull["base"]["ref"], pull["head"]["ref"]) == (True, "main", branch)
    assert row["pull_request"] == pull["html_url"]
    assert "**Verification: nothing broke** – 1 test passes; changed files that" in pull["body"]
    assert "names: 1 of 1, with 2 of 2 changed lines" in pull["body"]
    for part in ("\nIt is wrong.\n```", "| `calc.py` | 1 | 1 |", f"durabench job revise {job_id}"):
        assert part in pull["body"]


async def test_a_verified_patch_wins_over_one_that_breaks_tests(
    forge: Forge, lake_path: str
) -> None:
    """Two arms work on the same task, and the patch of the second is published."""
    await job(request(BREAK, REPAIR), lake_path)
    row = row_of(lake_path)
    assert (row["arm"], row["verdict"]) == ("arm-1", "nothing_broke")
    assert len(Lake.existing(lake_path).places("attempts", "*")) == 2


async def test_a_patch_that_breaks_tests_is_not_published(forge: Forge, lake_path: str) -> None:
    """It is kept, and the message names the test and the command that prints it."""
    with pytest.raises(GateFailed, match="test_zero fails and did not before"):
        await job(request(BREAK), lake_path)
    row = row_of(lake_path)
    assert (row["state"], row["verdict"], row["branch"]) == ("failed", "regressed", None)
    assert "a - b + 1" in row["patch"]
    assert list(forge.branches(NAME)) == ["main"]


async def test_an_issue_is_a_task(forge: Forge, lake_path: str) -> None:
    """Its title and text are the statement."""
    forge.issues[NAME, 7] = {
        "number": 7,
        "title": "Sums are wrong",
        "body": "add(1, 1) is 0",
        "url": f"{forge.api}/repos/{NAME}/issues/7",
    }
    await job(request(REPAIR, source=f"{forge.url}/{NAME}/issues/7", task=""), lake_path)
    row = row_of(lake_path)
    assert (row["title"], row["statement"]) == (
        "Sums are wrong",
        "Sums are wrong\n\nadd(1, 1) is 0",
    )


@pytest.mark.full
async def test_a_moved_base_branch_is_said(forge: Forge, lake_path: str) -> None:
    """The work started at an earlier commit of the branch."""
    await job(request(REPAIR, publish="patch"), lake_path)
    moved = forge.commit(NAME, {"b.py": ""}, "moved")
    await job(request(REPAIR), lake_path)
    assert f"and is at {moved[:12]}" in forge.pulls[NAME][0]["body"]


async def test_the_token_is_written_nowhere(
    forge: Forge, lake_path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No file of the lake, the journal, the cache or Prefect's home has it, and no argument of a
    program."""
    forge.is_private = True
    seen: set[str] = set()
    done = asyncio.Event()

    async def watch() -> None:
        while not done.is_set():
            for line in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    seen.add(line.read_bytes().decode(errors="replace"))
                except OSError:
                    continue
            await asyncio.sleep(0.01)

    watching = asyncio.create_task(watch())
    await job(request(REPAIR), lake_path)
    done.set()
    await watching
    assert not any(forge.token in line for line in seen)
    homes = [tmp_path / "lake", tmp_path / "cache", Path(os.environ.get("PREFECT_HOME", tmp_path))]
    files = [path for home in homes for path in home.rglob("*") if path.is_file()]
    assert len(files) > 20
    assert [path for path in files if forge.token.encode() in path.read_bytes()] == []


@pytest.mark.full
async def test_a_local_repository_gets_a_branch(
    forge: Forge, lake_path: str, tmp_path: Path
) -> None:
    """Its own work tree stays as it is."""
    work = forge.folder / "work" / NAME
    job_id = await job(request(REPAIR, source=str(work), publish="branch"), lake_path)
    row = row_of(lake_path)
    shown = forge.git(NAME, "-C", str(work), "show", f"{row['branch']}:calc.py")
    assert job_id in row["branch"]
    assert "a + b" in shown
    assert (work / "calc.py").read_text() == FILES["calc.py"]


@pytest.mark.full
async def test_a_finished_job_can_be_pruned(forge: Forge, lake_path: str, tmp_path: Path) -> None:
    """An unfinished one keeps its mirror. Named, a finished one is removed with its row."""
    command = ["prune", "--lake", lake_path, "--older-than", "0h", "--remove"]

    async def prune(*options: str) -> None:
        done = await asyncio.to_thread(CliRunner().invoke, app, [*command, *options])
        assert done.exit_code == 0, done.output

    await job(request(REPAIR, approve=True), lake_path)
    await prune("--only", "mirrors")
    assert len(list((tmp_path / "cache" / "mirrors").glob("*.git"))) == 1
    await approve(Lake.existing(lake_path), row_of(lake_path))
    job_id = await job(request(REPAIR, approve=True), lake_path)
    await prune("--only", "mirrors")
    assert list((tmp_path / "cache" / "mirrors").glob("*.git")) == []
    await prune("--experiment", f"job-{job_id}", "--results")
    assert Lake.existing(lake_path).all_shared("jobs") == []


def test_the_forge_is_asked_at_its_own_address(
    forge: Forge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another forge gets no token, and the API's address can be set."""
    from eval import repositories
    from flows.jobs.request import access_to, api_of

    ours = repositories.source(NAME, forge.url)
    other = repositories.source("https://elsewhere.example/a/b", forge.url)
    assert (access_to(ours).token, access_to(other).token) == (forge.token, "")
    assert api_of(ours) == forge.api
    monkeypatch.setenv(API, "https://api.elsewhere.example/")
    assert api_of(other) == "https://api.elsewhere.example"
