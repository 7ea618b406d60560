"""A task in a repository becomes a verified draft pull request, once."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from agent.errors import InfrastructureError
from eval.errors import DatasetError
from flows.cli.app import app
from flows.display.errors import GateFailed, UsageError
from flows.jobs.approving import approve
from flows.jobs.job import job
from flows.jobs.request import API, TOKEN
from flows.storage.lake import Lake, Row
from tests.flows.jobs.conftest import BREAK, CHEAT, FILES, NAME, REPAIR, arm, request
from tests.servers.forge import Forge

pytestmark = [pytest.mark.usefixtures("prefect"), pytest.mark.slow, pytest.mark.sampled(6)]


def row_of(lake_path: str) -> Row:
    """Return the row of the lake's only job."""
    [row] = Lake.existing(lake_path).all_shared("jobs")
    return row


async def test_a_task_becomes_a_draft_pull_request(forge: Forge, lake_path: str) -> None:
    """The branch has one commit on the base, and the body says what was asked, done and proven."""
    base = forge.branches(NAME)["main"]
    job_id = await job(request(REPAIR), lake_path)
    row = row_of(lake_path)
    branch = f"durabench/add-don-t-subtract-{job_id}"
    assert (row["state"], row["verdict"], row["branch"]) == ("done", "verified", branch)
    assert forge.branches(NAME) == {"main": base, branch: row["commit"]}
    shown = forge.git(NAME, "log", "--format=%an <%ae> %s", f"main..{branch}")
    assert shown == "Durabench <jobs@durabench.invalid> Add, don't subtract."
    assert forge.git(NAME, "show", f"{branch}:calc.py") == "def add(a, b):\n    return a + b"
    [pull] = forge.pulls[NAME]
    assert (pull["draft"], pull["base"]["ref"], pull["head"]["ref"]) == (True, "main", branch)
    assert row["pull_request"] == pull["html_url"]
    assert "**Verification: verified** – 1 test passes" in pull["body"]
    for part in ("\nIt is wrong.\n```", "| `calc.py` | 1 | 1 |", f"durabench job revise {job_id}"):
        assert part in pull["body"]


async def test_the_same_request_again_changes_and_buys_nothing(
    forge: Forge, lake_path: str
) -> None:
    """The finished job is shown, with one attempt, one branch and one pull request."""
    await job(request(REPAIR), lake_path)
    before = (row_of(lake_path)["updated_at"], forge.branches(NAME), forge.pulls[NAME].copy())
    await job(request(REPAIR), lake_path)
    assert len(Lake.existing(lake_path).places("attempts", "*")) == 1
    assert before[1:] == (forge.branches(NAME), forge.pulls[NAME])


@pytest.mark.parametrize(
    "failing",
    [
        f"POST /{NAME}.git/git-receive-pack",
        f"GET /api/v3/repos/{NAME}/pulls",
        f"POST /api/v3/repos/{NAME}/pulls",
    ],
)
async def test_a_job_that_is_cut_off_while_publishing_continues(
    failing: str, forge: Forge, lake_path: str
) -> None:
    """Wherever the forge fails, running the job again leads to one branch and one pull request."""
    forge.fail_next = [failing] * 9
    with pytest.raises(InfrastructureError):
        await job(request(REPAIR), lake_path)
    forge.fail_next.clear()
    await job(request(REPAIR), lake_path)
    assert len(forge.pulls[NAME]) == 1
    assert len(forge.branches(NAME)) == 2
    assert len(Lake.existing(lake_path).places("attempts", "*")) == 1


async def test_a_verified_patch_wins_over_one_that_breaks_tests(
    forge: Forge, lake_path: str
) -> None:
    """Two arms work on the same task, and the patch of the second is published."""
    await job(request(BREAK, REPAIR), lake_path)
    row = row_of(lake_path)
    assert (row["arm"], row["verdict"]) == ("arm-1", "verified")
    assert len(Lake.existing(lake_path).places("attempts", "*")) == 2


async def test_a_patch_that_breaks_tests_is_not_published(forge: Forge, lake_path: str) -> None:
    """It is kept, and the message names the test and the command that prints it."""
    with pytest.raises(GateFailed, match="test_zero fails and did not before"):
        await job(request(BREAK), lake_path)
    row = row_of(lake_path)
    assert (row["state"], row["verdict"], row["branch"]) == ("failed", "regressed", None)
    assert "a - b + 1" in row["patch"]
    assert list(forge.branches(NAME)) == ["main"]


async def test_tests_that_the_patch_changes_prove_nothing(forge: Forge, lake_path: str) -> None:
    """A patch that adapts an existing test to its error is published as not verified."""
    await job(request(CHEAT), lake_path)
    row = row_of(lake_path)
    assert row["verdict"] == "not_verified"
    assert "existing tests pass only as the patch changes them (test_calc.py)" in row["reason"]
    assert "not verified" in forge.pulls[NAME][0]["body"]


async def test_tests_that_fail_before_the_patch_prove_nothing(forge: Forge, lake_path: str) -> None:
    """The reason names the test."""
    forge.commit(NAME, {"test_red.py": "def test_red():\n    assert 0\n"}, "red")
    await job(request(REPAIR), lake_path)
    row = row_of(lake_path)
    assert row["verdict"] == "not_verified"
    assert "1 test failed at the base commit, not repaired: test_red.py" in row["reason"]


async def test_a_revision_adds_a_commit_to_the_branch(forge: Forge, lake_path: str) -> None:
    """The pull request stays the same one, and the arms begin at the first commit."""
    first = await job(request(REPAIR), lake_path)
    comments = "Also document it."
    again = "sed -i '1i # Sums.' calc.py"
    await job(request(again, revises=first, task=comments), lake_path)
    branch = f"durabench/add-don-t-subtract-{first}"
    assert len(forge.pulls[NAME]) == 1
    assert list(forge.branches(NAME)) == [branch, "main"]
    assert forge.git(NAME, "rev-list", "--count", f"main..{branch}") == "2"
    assert forge.git(NAME, "show", f"{branch}:calc.py").splitlines()[0] == "# Sums."
    assert comments in forge.pulls[NAME][0]["body"]


async def test_a_patch_waits_for_approval(forge: Forge, lake_path: str) -> None:
    """Nothing is pushed before, and approving buys nothing."""
    await job(request(REPAIR, approve=True), lake_path)
    assert row_of(lake_path)["state"] == "waiting"
    assert forge.pulls[NAME] == []
    await approve(Lake.existing(lake_path), row_of(lake_path))
    await job(request(REPAIR, approve=True), lake_path)
    assert row_of(lake_path)["state"] == "done"
    assert len(forge.pulls[NAME]) == 1


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


async def test_a_moved_base_branch_is_said(forge: Forge, lake_path: str) -> None:
    """The work began at an earlier commit than the branch is at."""
    await job(request(REPAIR, publish="patch"), lake_path)
    moved = forge.commit(NAME, {"b.py": ""}, "moved")
    await job(request(REPAIR), lake_path)
    assert f"and is at {moved[:12]}" in forge.pulls[NAME][0]["body"]


async def test_a_branch_with_other_commits_is_left_alone(forge: Forge, lake_path: str) -> None:
    """The message names the branch."""
    job_id = await job(request(REPAIR, publish="patch"), lake_path)
    name = f"durabench/add-don-t-subtract-{job_id}"
    forge.git(NAME, "branch", name, "main")
    with pytest.raises(UsageError, match="has other commits"):
        await job(request(REPAIR), lake_path)
    assert forge.branches(NAME)[name] == forge.branches(NAME)["main"]


async def test_a_token_without_rights_is_one_line(forge: Forge, lake_path: str) -> None:
    """With another token the job continues, and buys nothing again."""
    forge.may_write = False
    with pytest.raises(UsageError, match=f"set {TOKEN} to a token that can write"):
        await job(request(REPAIR), lake_path)
    forge.may_write = True
    await job(request(REPAIR), lake_path)
    assert len(Lake.existing(lake_path).places("attempts", "*")) == 1


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"source": "octo/none"}, DatasetError, "there is no repository"),
        ({"ref": "none"}, DatasetError, "no branch, tag or commit 'none'"),
        ({"revises": "abc123"}, UsageError, "no job with the id"),
    ],
)
async def test_a_request_that_cannot_be_carried_out_leaves_nothing(
    changes: dict[str, str], error: type[Exception], said: str, forge: Forge, lake_path: str
) -> None:
    """There is no row, and nothing was bought."""
    with pytest.raises(error, match=said):
        await job(request(REPAIR, **changes), lake_path)
    assert Lake.existing(lake_path).all_shared("jobs") == []


async def test_without_a_test_command_verification_has_to_be_declined(
    forge: Forge, lake_path: str
) -> None:
    """`auto` asks for a command; `none` publishes the patch as not verified."""
    forge.add("octo/bare", {"a.txt": "1\n"})
    with pytest.raises(UsageError, match="name one with --verify CMD"):
        await job(request("echo 2 >a.txt", source="octo/bare"), lake_path)
    assert Lake.existing(lake_path).all_shared("jobs") == []
    await job(request("echo 2 >a.txt", source="octo/bare", verify="none"), lake_path)
    assert row_of(lake_path)["verdict"] == "not_verified"


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


@pytest.mark.docker
async def test_a_job_runs_in_a_container_of_a_named_image(
    forge: Forge, lake_path: str, docker_client: Any
) -> None:
    """The tests run before and after in fresh containers."""
    asked = request(REPAIR, environment="docker", image="durabench/base:bookworm")
    await job(asked, lake_path)
    row = row_of(lake_path)
    docker_client.images.remove(row["image"], force=True)
    assert (row["verdict"], row["image"].partition(":")[0]) == ("verified", "durabench/job")


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


async def test_a_real_arm_runs_make_and_competes_with_another(forge: Forge, lake_path: str) -> None:
    """mini-swe-agent's patch is verified by `make test`, and wins over one that breaks it."""
    makefile = "test:\n\tpython3 -c 'from calc import add; assert add(0, 0) == 0'\n"
    forge.add("octo/made", {"calc.py": FILES["calc.py"], "Makefile": makefile})
    submit = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && cat patch.txt"
    replies = [
        {"content": "I repair it.", "command": f"{REPAIR}; git diff calc.py >patch.txt"},
        {"content": "Done.", "command": submit},
    ]
    mini = {"name": "mini", "agent": "mini", "model": {"provider": "scripted", "replies": replies}}
    await job(request(source="octo/made", arms=[arm("breaking", BREAK), mini]), lake_path)
    row = row_of(lake_path)
    assert (row["arm"], row["verdict"], row["verify_command"]) == ("mini", "verified", "make test")
    assert row["reason"] == "the command ends with exit code 0"


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
