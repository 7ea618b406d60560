"""What publishing needs is asked for before an arm is paid."""

from collections.abc import Callable

import pytest

from flows.display.errors import UsageError
from flows.jobs.job import job
from flows.jobs.request import TOKEN
from flows.jobs.rows import read_all
from flows.storage.lake import Lake
from tests.flows.jobs.conftest import NAME, REPAIR, request
from tests.servers.forge import Forge

pytestmark = [pytest.mark.usefixtures("prefect"), pytest.mark.slow]

Change = Callable[[Forge, pytest.MonkeyPatch], object]
ID = "abc123abc1"
BRANCH = f"durabench/add-don-t-subtract-{ID}"


@pytest.mark.parametrize(
    ("publish", "change", "said"),
    [
        ("branch", lambda forge, patch: patch.delenv(TOKEN), "does not let this user push"),
        ("pull_request", lambda forge, patch: patch.delenv(TOKEN), f"needs a token: set {TOKEN}"),
        ("branch", lambda forge, patch: setattr(forge, "may_write", False), "let this user push"),
        ("pull_request", lambda forge, patch: setattr(forge, "may_write", False), "may not write"),
        (
            "branch",
            lambda forge, patch: forge.git(NAME, "branch", BRANCH, "main"),
            "has other commits",
        ),
    ],
)
async def test_a_job_that_cannot_publish_buys_nothing(
    publish: str,
    change: Change,
    said: str,
    forge: Forge,
    lake_path: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The message is the one that it would have ended with, and no job is written."""
    change(forge, monkeypatch)
    with pytest.raises(UsageError, match=said):
        await job(request(REPAIR, publish=publish, id=ID), lake_path)
    assert read_all(Lake.open(lake_path)) == []
    assert not any("git-receive-pack" in asked for asked in forge.requests if asked[:4] == "POST")


async def test_a_forge_without_drafts_and_a_large_change_are_no_obstacle(
    forge: Forge, lake_path: str
) -> None:
    """The pull request is open at once, and its text is cut with a count."""
    forge.has_drafts = False
    many = f"{REPAIR}; for n in $(seq 1500); do echo a >some-file-with-a-longer-name-$n; done"
    await job(request(many), lake_path)
    [pull] = forge.pulls[NAME]
    assert pull["draft"] is False
    assert "\n… 1,3" in pull["body"]
    assert "### How to continue" in pull["body"]
