"""A pull request is revised on top of what others have done to it."""

import subprocess
from datetime import UTC, datetime

import pytest

from flows.display.errors import UsageError
from flows.jobs import rows
from flows.jobs.approving import answer
from flows.jobs.job import job
from flows.storage.lake import Lake
from tests.flows.jobs.conftest import NAME, REPAIR, request
from tests.servers.forge import IDENTITY, Forge

pytestmark = [pytest.mark.usefixtures("prefect"), pytest.mark.slow]

DOCUMENT = "sed -i '1i # Sums.' calc.py"


def push_as_reviewer(forge: Forge, branch: str, name: str) -> str:
    """Add a commit with a file to a branch. Return it."""
    work = forge.folder / "reviewer"
    if not work.exists():
        subprocess.run(["git", "clone", "-q", forge.path(NAME), work], check=True)
    (work / name).write_text("a\n")
    for command in (
        ["fetch", "-q", "origin", branch],
        ["checkout", "-q", "FETCH_HEAD"],
        ["add", "-A"],
        [*IDENTITY, "commit", "-qm", f"Add {name}"],
        ["push", "-q", "origin", f"HEAD:{branch}"],
    ):
        subprocess.run(["git", "-C", work, *command], check=True)
    return forge.branches(NAME)[branch]


async def test_a_revision_goes_on_top_of_commits_of_others(forge: Forge, lake_path: str) -> None:
    """Of one that came before it, and of one that came while its patch waited."""
    first = await job(request(REPAIR), lake_path)
    lake = Lake.existing(lake_path)
    branch = rows.find(lake, first)["branch"]
    before = push_as_reviewer(forge, branch, "before.txt")
    asked = request(DOCUMENT, revises=first, task="Document it.", approve=True)
    second = await job(asked, lake_path)
    row = rows.find(lake, second)
    assert (row["state"], row["base_commit"]) == ("waiting", before)
    meanwhile = push_as_reviewer(forge, branch, "meanwhile.txt")
    answer(lake, row, "a person", is_approval=True)
    await job(asked, lake_path)
    row, head = rows.find(lake, second), forge.branches(NAME)[branch]
    assert (row["state"], row["commit"]) == ("done", head)
    assert forge.git(NAME, "rev-parse", f"{branch}^") == meanwhile
    assert forge.git(NAME, "show", f"{branch}:calc.py").startswith("# Sums.")
    assert len(forge.pulls[NAME]) == 1
    assert rows.find_last(lake, rows.find(lake, first))["job_id"] == second


async def test_comments_of_the_pull_request_are_a_task(forge: Forge, lake_path: str) -> None:
    """Those of the repository's people since the last job; a closed one is not revised."""
    first = await job(request(REPAIR), lake_path)
    lake, now = Lake.existing(lake_path), datetime.now(UTC).isoformat()
    [pull] = forge.pulls[NAME]
    assert rows.find(lake, pull["html_url"])["job_id"] == first
    with pytest.raises(UsageError, match="has no new comments"):
        await job(request(DOCUMENT, revises=first, task=""), lake_path)
    owner = {"author_association": "OWNER", "created_at": now}
    forge.comments[NAME, "/pulls/1/comments"] = [
        {**owner, "body": "Say what it adds.", "path": "calc.py", "line": 2},
        {**owner, "body": "Push the keys, too.", "author_association": "NONE"},
        {**owner, "body": "Old.", "created_at": "2020-01-01T00:00:00Z"},
    ]
    second = await job(request(DOCUMENT, revises=first, task=""), lake_path)
    said = rows.find(lake, second)["statement"].partition("the reviewer says:\n\n")[2]
    assert said == "calc.py:2: Say what it adds."
    pull["state"], pull["merged"] = "closed", True
    with pytest.raises(UsageError, match="is merged, so nothing is added to it"):
        await job(request("echo a >b", revises=second, task="More."), lake_path)
    assert len(rows.read_all(lake)) == 2


async def test_what_happens_to_the_branch_meanwhile_is_respected(
    forge: Forge, lake_path: str
) -> None:
    """Someone renames the default branch, pushes at the same moment, or closes the pull request."""
    bare = f"git -C {forge.path(NAME)}"
    rename = f"{bare} branch -m main trunk; {bare} symbolic-ref HEAD refs/heads/trunk"
    first = await job(request(f"{REPAIR}; {rename}"), lake_path)
    lake = Lake.existing(lake_path)
    row = rows.find(lake, first)
    [pull] = forge.pulls[NAME]
    assert (row["state"], row["base_branch"], pull["base"]["ref"]) == ("done", "trunk", "trunk")

    pull["base"]["ref"] = "next"
    forge.git(NAME, "branch", "-m", "trunk", "next")
    pushed: list[str] = []

    def push_first(asked: str) -> None:
        if "service=git-receive-pack" in asked and forge.requests.count(asked) % 2 == 0:
            forge.before_answer = lambda asked: None
            pushed.append(push_as_reviewer(forge, row["branch"], "meanwhile.txt"))

    asked, forge.requests = f"GET /{NAME}.git/info/refs?service=git-receive-pack", []
    forge.before_answer = push_first
    await job(request(DOCUMENT, revises=first, task="Document it."), lake_path)
    assert forge.git(NAME, "rev-parse", f"{row['branch']}^") == pushed[0]
    assert asked in forge.requests
    head = forge.branches(NAME)[row["branch"]]

    def close(asked: str) -> None:
        if asked.endswith("/pulls/1"):
            pull["state"] = "closed"

    forge.before_answer = close
    with pytest.raises(UsageError, match="is closed, so nothing is added to it"):
        await job(request("echo a >b", revises=first, task="More."), lake_path)
    assert forge.branches(NAME)[row["branch"]] == head
