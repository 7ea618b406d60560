"""Events of forges, as they send them and as they list them."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from eval import repositories
from flows.jobs.forges import github, gitlab
from flows.jobs.forges.gitea import Gitea
from flows.jobs.forges.github import GitHub
from flows.jobs.forges.gitlab import GitLab
from flows.jobs.forges.protocol import Event, find_mention
from tests.servers.forge import Forge
from tests.servers.other_forges import GiteaForge, GitLabForge

AT = datetime(2026, 5, 17, 18, 8, 9, tzinfo=UTC)
TIME = "2026-05-17T18:08:09Z"
ISSUE = {"number": 7, "updated_at": TIME, "created_at": TIME, "body": "@durabench do it"}
LABELLED = {**ISSUE, "labels": [{"name": "durabench"}]}
SAID = {"body": "@durabench, add a test", "created_at": TIME, "user": {"login": "ann"}}
GITLAB = {"user": {"username": "ann"}}
NOTE = {"note": "@durabench add a test", "created_at": "2026-05-17 18:08:09 UTC"}


@pytest.mark.parametrize(
    ("kind", "payload", "event"),
    [
        (
            "issues",
            {"action": "labeled", "issue": ISSUE, "label": {"name": "durabench"}},
            Event(AT, 7, False, "ann", ""),
        ),
        ("issues", {"action": "labeled", "issue": ISSUE, "label": {"name": "bug"}}, None),
        ("issues", {"action": "label_updated", "issue": LABELLED}, Event(AT, 7, False, "ann", "")),
        ("issues", {"action": "opened", "issue": ISSUE}, Event(AT, 7, False, "ann", "do it")),
        ("pull_request", {"action": "opened", "pull_request": ISSUE}, None),
        (
            "issue_comment",
            {"action": "created", "issue": ISSUE, "comment": SAID},
            Event(AT, 7, False, "ann", "add a test"),
        ),
        (
            "issue_comment",
            {"action": "created", "issue": ISSUE, "is_pull": True, "comment": SAID},
            Event(AT, 7, True, "ann", "add a test"),
        ),
        (
            "pull_request_review",
            {
                "action": "submitted",
                "pull_request": ISSUE,
                "review": {**SAID, "submitted_at": TIME},
            },
            Event(AT, 7, True, "ann", "add a test"),
        ),
        (
            "pull_request_rejected",
            {"action": "reviewed", "pull_request": ISSUE, "review": {"content": "@durabench no"}},
            Event(AT, 7, True, "ann", "no"),
        ),
        ("issue_comment", {"action": "deleted", "issue": ISSUE, "comment": SAID}, None),
        ("push", {"ref": "refs/heads/main"}, None),
    ],
)
def test_a_delivery_of_github_or_gitea(
    kind: str, payload: dict[str, Any], event: Event | None
) -> None:
    """Gitea names the labels of an issue, and GitHub the new one."""
    assert github.read_delivery(kind, {**payload, "sender": {"login": "ann"}}) == event


@pytest.mark.parametrize(
    ("payload", "event"),
    [
        (
            {
                "object_kind": "issue",
                "object_attributes": {"iid": 7, "updated_at": TIME, "action": "update"},
                "changes": {"labels": {"previous": [], "current": [{"title": "durabench"}]}},
            },
            Event(AT, 7, False, "ann", ""),
        ),
        (
            {
                "object_kind": "merge_request",
                "object_attributes": {"iid": 7, "updated_at": TIME, "action": "update"},
                "changes": {"labels": {"previous": [{"title": "durabench"}], "current": []}},
            },
            None,
        ),
        (
            {"object_kind": "note", "object_attributes": NOTE, "merge_request": {"iid": 7}},
            Event(AT, 7, True, "ann", "add a test"),
        ),
        (
            {"object_kind": "note", "object_attributes": NOTE, "issue": {"iid": 7}},
            Event(AT, 7, False, "ann", "add a test"),
        ),
    ],
)
def test_a_delivery_of_gitlab(payload: dict[str, Any], event: Event | None) -> None:
    """Only a label that is new counts."""
    assert gitlab.read_delivery(payload | GITLAB) == event


def test_ci_is_a_commit() -> None:
    """Whatever else it says is asked for."""
    suite = github.read_delivery("check_suite", {"check_suite": {"head_sha": "abc"}})
    status = github.read_delivery("status", {"sha": "abc", "state": "failure"})
    pipeline = {"object_kind": "pipeline", "object_attributes": {"sha": "abc"}}
    events = [suite, status, gitlab.read_delivery(pipeline)]
    assert [event.commit for event in events if event] == ["abc"] * 3


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("@durabench fix it", "fix it"),
        ("Please, @Durabench", "Please,"),
        ("> @durabench fix it\n\nNo.", None),
        ("Answer to `@durabench why`\n\n<!-- durabench -->", None),
        ("me@durabench.org, @durabench-bot, @@durabench", None),
        (None, None),
    ],
)
def test_a_mention_is_a_word_outside_of_quotes(text: str | None, rest: str | None) -> None:
    """An address, another name and a quote are none."""
    assert find_mention(text) == rest


def listed(forge: Forge) -> dict[str, list[dict[str, Any]]]:
    """Return a label on issue 7 and a mention on pull request 8, as a forge lists them."""
    user, label = {"login": "ann", "username": "ann"}, {"name": "durabench"}
    api = f"{forge.api}/repos/octo/demo"
    if isinstance(forge, GitLabForge):
        note = {**NOTE, "body": NOTE["note"], "created_at": TIME, "author": user}
        on_pull = {"note": {**note, "noteable_type": "MergeRequest", "noteable_iid": 8}}
        change = {"action": "add", "label": label, "user": user, "created_at": TIME}
        return {
            "/events": [on_pull, {"note": {**note, "noteable_type": "Commit"}}, {}],
            "/issues": [{"iid": 7, "labels": ["durabench"], "description": None}],
            "/issues/7/resource_label_events": [change, {**change, "action": "remove"}],
        }
    web = f"{forge.url}/octo/demo/pulls/8#comment-1"
    comment = {**SAID, "html_url": web, "issue_url": f"{api}/issues/8"}
    issue = {"number": 7, "labels": [label], "body": "", "html_url": f"{forge.url}/issues/7"}
    if isinstance(forge, GiteaForge):
        comment |= {"issue_url": "", "pull_request_url": f"{forge.url}/octo/demo/pulls/8"}
        change = {"type": "label", "label": label, "user": user, "created_at": TIME}
        return {
            "/issues": [issue],
            "/issues/7/timeline": [{**change, "body": "1"}, {**change, "body": ""}],
            "/issues/comments": [comment],
        }
    set_, other = (
        {"event": kind, "label": label, "actor": user} for kind in ("labeled", "unlabeled")
    )
    on_issue = {"issue": {"number": 7}, "created_at": TIME}
    events = [{**set_, **on_issue}, {**other, **on_issue}]
    return {"/issues": [issue], "/issues/comments": [comment], "/issues/events": events}


@pytest.mark.parametrize(
    ("kind", "stand_in"), [(GitHub, Forge), (GitLab, GitLabForge), (Gitea, GiteaForge)]
)
def test_events_are_read_without_a_webhook(
    kind: type[GitHub] | type[GitLab], stand_in: type[Forge], tmp_path: Path
) -> None:
    """Who set a label is known, and what is older is left out."""
    with stand_in(tmp_path) as forge:
        forge.add("octo/demo", {"a": ""})
        forge.events = listed(forge)
        connected = kind(repositories.source("octo/demo", forge.url), forge.api, forge.token)
        found = connected.read_events(AT - timedelta(seconds=1))
        assert sorted(found, key=lambda event: event.number) == [
            Event(AT, 7, False, "ann", ""),
            Event(AT, 8, True, "ann", "add a test"),
        ]
        assert connected.read_events(AT) == []
