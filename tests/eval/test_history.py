"""Commits after the base commit are found wherever git keeps them."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from eval.history import inspect

COMMIT = "echo later >> calc.py && git commit -qam later"
BACK = "git reset -q --hard HEAD~ && rm -f .git/ORIG_HEAD"
FORGET = "git reflog expire --expire=now --all"


def run(repository: Path, commands: str) -> str:
    """Run shell commands with a git identity. Return their output."""
    identity = "export GIT_{AUTHOR,COMMITTER}_NAME=Test GIT_{AUTHOR,COMMITTER}_EMAIL=test@x.org\n"
    done = subprocess.run(
        ["bash", "-ec", identity + commands],
        cwd=repository,
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


@pytest.fixture
def base(repository: Path) -> str:
    return run(repository, "git rev-parse HEAD")


DOCTORED = {
    "branch": (
        f"git checkout -qb fix && {COMMIT} && git checkout -q main",
        "branch: refs/heads/fix leads to ",
    ),
    "tag": (f"{COMMIT} && git tag v2 && {BACK}", "tag: refs/tags/v2 leads to "),
    "tag with a message": (
        f"{COMMIT} && git tag -m two v2 && {BACK}",
        "tag: refs/tags/v2 leads to ",
    ),
    "stash": ("echo later >> calc.py && git stash -q", "stash: refs/stash leads to "),
    "pull request": (
        f"{COMMIT} && git update-ref refs/pull/7/head HEAD && {BACK}",
        "reference: refs/pull/7/head leads to ",
    ),
    "remote branch": (
        "git clone -q . ../fork && cd ../fork && git remote remove origin && "
        f"{COMMIT} && cd - && git fetch -q ../fork main:refs/remotes/fork/main",
        "remote: refs/remotes/fork/main leads to ",
    ),
    "remote": (
        "git remote add origin https://example.org/x.git",
        "remote: remote.origin.url https://example.org/x.git",
    ),
    "reflog": (f"{COMMIT} && {BACK}", "reflog: logs/HEAD leads to "),
    "head before a reset": (
        f"{COMMIT} && git reset -q --hard HEAD~ && {FORGET}",
        "reflog: ORIG_HEAD leads to ",
    ),
    "worktree": (
        f"git worktree add -q --detach ../other && cd ../other && {COMMIT} && {FORGET}",
        "worktree: ",
    ),
    "dangling object": (f"{COMMIT} && {BACK} && {FORGET}", "object: "),
    "dangling object with an old date": (
        f"export GIT_COMMITTER_DATE=2001-01-01T00:00:00Z && {COMMIT} && {BACK} && {FORGET}",
        "object: ",
    ),
    "pack": (f"{COMMIT} && git repack -qad && {BACK} && {FORGET}", "pack: "),
    "pack without an index": (
        "touch .git/objects/pack/tmp_pack_x",
        "pack: tmp_pack_x has no index",
    ),
    "content of no commit": ("echo solution | git hash-object -w --stdin", "object: "),
}
"""Commands that hide something in a repository, and the beginning of the expected reason."""


@pytest.mark.parametrize("name", DOCTORED)
async def test_newer_content_is_found(
    name: str, repository: Path, host_shell: Any, base: str
) -> None:
    """Content that is newer than the base commit is found in each hiding place, and the reason
    names it."""
    doctored, begins = DOCTORED[name]
    run(repository, doctored)
    reasons = [str(leak) for leak in await inspect(host_shell, base)]
    assert [reason for reason in reasons if reason.startswith(begins)], reasons


@pytest.mark.parametrize(
    "harmless",
    [
        "true",
        "git repack -qad",
        "git tag v1 && git tag -m one v1.0",
        "git commit -q --amend --date=2030-01-01T00:00:00Z -m 'the same again'",
        "export GIT_COMMITTER_DATE=2001-01-01T00:00:00Z && git checkout -q --orphan old "
        "&& git rm -qf calc.py && echo > a && git add a && git commit -qm old "
        "&& git checkout -q main",
        "export GIT_COMMITTER_EMAIL=setup@swebench.config && echo >> calc.py "
        "&& git commit -qam SWE-bench",
    ],
    ids=["untouched", "packed", "tags", "amended", "older branch", "the harness's own commit"],
)
async def test_harmless_content_is_accepted(
    harmless: str, repository: Path, host_shell: Any, base: str
) -> None:
    """An amended base commit, earlier releases and the commits of SWE-bench itself do not count."""
    run(repository, harmless)
    assert await inspect(host_shell, base) == ()


async def test_what_a_login_profile_prints_is_no_commit(host_shell: Any, base: str) -> None:
    """An image may greet those who log in."""
    host_shell.home.mkdir()
    (host_shell.home / ".bash_profile").write_text("echo welcome to this image; echo oh >&2\n")
    assert (await host_shell.run("true", timeout_s=10)).output == "welcome to this image\noh\n"
    assert await inspect(host_shell, base) == ()


async def test_a_repository_without_the_base_commit_fails(host_shell: Any) -> None:
    """A repository without the base commit fails, because it cannot be known what is newer."""
    [leak] = await inspect(host_shell, "1" * 40)
    assert leak.where == "base_commit"
