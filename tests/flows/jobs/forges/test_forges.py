"""Jobs on each forge, over HTTP against a stand-in that refuses what the real one refuses."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from eval import repositories
from eval.errors import DatasetError
from flows.display.errors import UsageError
from flows.jobs import forge as forges
from flows.jobs import rows
from flows.jobs.job import job
from flows.jobs.request import FORGE, TOKEN, access_to
from flows.storage.images import CACHE_VARIABLE
from flows.storage.lake import Lake
from tests.flows.jobs.conftest import FILES, REPAIR, request
from tests.servers.forge import Forge
from tests.servers.other_forges import GiteaForge, GitLabForge

pytestmark = [pytest.mark.usefixtures("prefect"), pytest.mark.slow]

KINDS = {"github": Forge, "gitlab": GitLabForge, "gitea": GiteaForge}
NAMES = {GitLabForge: "octo/group/demo"}
NOW = datetime.now(UTC)


@pytest.fixture(params=KINDS)
def forge(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Forge]:
    """Yield a forge of each kind with one project. The environment has its usual variable."""
    with KINDS[request.param](tmp_path / "forge") as forge:
        forge.add(name_of(forge), FILES)
        monkeypatch.delenv(TOKEN, raising=False)
        monkeypatch.setenv(FORGE, forge.url)
        monkeypatch.setenv(forge.variable, forge.token)
        monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
        yield forge


def name_of(forge: Forge) -> str:
    """Return the name of its project."""
    return NAMES.get(type(forge), "octo/demo")


def source_of(forge: Forge) -> repositories.RepositorySource:
    """Return its project."""
    return repositories.source(name_of(forge), forge.url)


async def test_a_job_has_one_draft_that_is_revised_until_it_is_merged(
    forge: Forge, lake_path: str
) -> None:
    """Comments of people who may write are read, and those of others are not."""
    name, lake = name_of(forge), Lake.open(lake_path)
    forge.is_private = True
    first = await job(request(REPAIR, source=name), lake_path)
    row = rows.find(lake, first)
    [pull] = forge.pulls[name]
    assert (row["pull_request"], pull["draft"]) == (pull["html_url"], True)
    assert rows.find(lake, pull["html_url"])["job_id"] == first

    kind = "merge_requests" if isinstance(forge, GitLabForge) else "issues"
    forge.comments[name, f"/{kind}/1/notes"] = [say_on_gitlab(user) for user in ("octo", "bad")]
    forge.comments[name, f"/{kind}/1/comments"] = [say(user) for user in ("octo", "bad")]
    second = await job(request("echo a >b", source=name, revises=first, task=""), lake_path)
    said = rows.find(lake, second)["statement"].partition("the reviewer says:\n\n")[2]
    assert said == "Document it, says octo."
    assert len(forge.pulls[name]) == 1
    assert forge.branches(name)[row["branch"]] == rows.find(lake, second)["commit"]

    pull["state"], pull["merged"] = "closed", True
    with pytest.raises(UsageError, match="is merged, so nothing is added"):
        await job(request("echo a >c", source=name, revises=second, task="More."), lake_path)


def say(user: str) -> dict[str, Any]:
    """Return a comment, as GitHub and Gitea show it."""
    text, at = f"Document it, says {user}.", (NOW + timedelta(hours=1)).isoformat()
    association = "OWNER" if user == "octo" else "NONE"
    shown = {"user": {"login": user}, "body": text, "author_association": association}
    return {**shown, "created_at": at}


def say_on_gitlab(user: str) -> dict[str, Any]:
    """Return a note, as GitLab shows it."""
    shown = say(user)
    return {**shown, "author": {"username": user}, "system": False}


async def test_what_is_open_already_is_found(forge: Forge) -> None:
    """Between the look and the opening, another run may have opened it. Titles are cut."""
    source, name = source_of(forge), name_of(forge)
    forge.git(name, "branch", "durabench/x", "main")
    title, posts = "t" * 300, f"POST {forge.api_path}"
    address = forges.pull_request(source, "durabench/x", "main", title, "one")
    assert len(forge.pulls[name][0]["title"]) == forges.connect(source).limits.title
    hidden = forge.pulls[name].copy()

    def reveal(request: str) -> None:
        forge.pulls[name][:] = hidden

    forge.pulls[name].clear()
    forge.before_answer = reveal  # after the first look
    assert forges.pull_request(source, "durabench/x", "main", title, "two") == address
    assert [pull["body"] for pull in forge.pulls[name]] == ["two"]
    assert sum(asked.startswith(posts) for asked in forge.requests) == 2


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda forge, patch: patch.setenv(forge.variable, "wrong"), "does not allow|not let"),
        (lambda forge, patch: setattr(forge, "may_write", False), "may not write to"),
        (
            lambda forge, patch: setattr(forge, "may_open", False),
            "may not write to|not allow a pull",
        ),
        (lambda forge, patch: patch.delenv(forge.variable), f"needs a token: set {TOKEN}"),
    ],
)
async def test_rights_are_checked_before_anything_is_paid(
    change: Any, said: str, forge: Forge, lake_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each refusal is one line, and no job is written."""
    change(forge, monkeypatch)
    with pytest.raises((UsageError, DatasetError), match=said) as caught:
        await job(request(REPAIR, source=name_of(forge)), lake_path)
    assert "\n" not in str(caught.value)
    assert rows.read_all(Lake.open(lake_path)) == []


def test_checks_are_read_with_the_end_of_their_logs(forge: Forge) -> None:
    """A check that is not done leaves it open. The token goes to no other host with the logs."""
    commit = forge.branches(name_of(forge))["main"]
    forge.checks[commit] = [
        {"name": "unit", "state": "failure", "log": "E assert 1 == 2"},
        {"name": "lint", "state": "success", "log": ""},
    ]
    connected = forges.connect(source_of(forge))
    checks = connected.read_checks(commit)
    assert not checks.is_pending
    [failed] = checks.failed
    assert ("unit" in failed.name, failed.log) == (True, "E assert 1 == 2")
    forge.checks[commit][1]["state"] = "pending"
    assert connected.read_checks(commit).is_pending
    assert connected.read_checks("0" * 40).failed == ()


def test_people_without_write_rights_are_told_apart(forge: Forge) -> None:
    """Where the token may not see that, the refusal says so."""
    connected = forges.connect(source_of(forge))
    assert connected.read_rights("octo") == "write"
    assert connected.read_rights("bad") == "read"
    if isinstance(forge, GiteaForge):
        forge.is_admin = False
        with pytest.raises(UsageError, match="to see who may write"):
            connected.read_rights("someone")


def test_an_issue_is_read_by_its_address(forge: Forge) -> None:
    """Also in a group of groups, and an answer that the forge failed with is asked for again."""
    name = name_of(forge)
    forge.issues[name, 7] = {"title": "Wrong sum", "body": "It subtracts."}
    dash = "/-" if isinstance(forge, GitLabForge) else ""
    source = repositories.source(f"{forge.url}/{name}{dash}/issues/7", forge.url)
    forge.fail_next = [f"GET {forge.api_path}/"]
    assert forges.read_issue(source) == ("Wrong sum", "It subtracts.")
    with pytest.raises(DatasetError, match="the forge has no issue"):
        forges.read_issue(repositories.source(f"{forge.url}/{name}{dash}/issues/8", forge.url))


def test_the_token_is_for_its_forge(forge: Forge, monkeypatch: pytest.MonkeyPatch) -> None:
    """No other address gets it, whatever forge answers there."""
    assert access_to(source_of(forge)).token == forge.token
    monkeypatch.setenv(FORGE, "https://github.com")
    monkeypatch.setenv("GITLAB_TOKEN", forge.token)
    assert access_to(source_of(forge)).token == ""
    public = repositories.source("https://gitlab.com/octo/demo", "https://github.com")
    assert access_to(public).token == forge.token


@pytest.mark.parametrize(
    "given",
    [
        "group/sub/demo",
        "https://host:8443/git/group/sub/demo.git",
        "https://host:8443/git/group/sub/demo/-/issues/7",
        "git@host:group/sub/demo.git",
        "ssh://git@host:2222/group/sub/demo.git",
    ],
)
def test_a_forge_may_be_in_a_folder_of_its_host(given: str) -> None:
    """Each form of an address leads to it, and other folders do not."""
    found = repositories.source(given, "https://host:8443/git/")
    assert (found.web, found.name) == ("https://host:8443/git", "sub/demo")
    assert forges.find_page(found) == "https://host:8443/git/group/sub/demo"
    other = repositories.source("https://host:8443/gitea/group/demo", "https://host:8443/git")
    assert other.web == "https://host:8443"
