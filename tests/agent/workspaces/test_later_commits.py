"""What git has of the time after the base commit is gone before an agent can see it."""

import pytest

from agent.workspaces import HostWorkspace
from eval.history import inspect
from tests.agent.repositories import by_script
from tests.agent.workspaces.conftest import REPOSITORY

LATER = (
    "export GIT_COMMITTER_DATE='2025-01-01 00:00 +0000'; echo solution >text.txt; "
    "git commit -qam solution"
)
BACK = "git reset -q --hard base"
FORGET = "git reflog expire --expire=now --all; rm -f .git/ORIG_HEAD"

LEAKS = {
    "branch": f"git checkout -qb fix; {LATER}; git checkout -q main",
    "tag": f"{LATER}; git tag v2; {BACK}",
    "tag with a message": f"{LATER}; git tag -m two v2; {BACK}",
    "stash": "export GIT_COMMITTER_DATE='2025-01-01 00:00 +0000'; echo x >text.txt; git stash -q",
    "pull request": f"{LATER}; git update-ref refs/pull/7/head HEAD; {BACK}",
    "remote": f"{LATER}; git update-ref refs/remotes/o/x HEAD; {BACK}; git remote add o /nowhere",
    "reflog": f"{LATER}; {BACK}",
    "head before a reset": f"{LATER}; git reflog expire --expire=now --all; {BACK}",
    "no name": f"{LATER}; {BACK}; {FORGET}",
    "pack": f"{LATER}; git repack -qad; {BACK}; {FORGET}",
    "pack that stays": (
        f"{LATER}; git repack -qad; {BACK}; {FORGET}; for p in .git/objects/pack/*.pack; do "
        "touch ${p%.pack}.keep; done"
    ),
    "commit on top": f"git checkout -qb fix; {LATER}; git checkout -q main; "
    "git config user.email setup@swebench.config; echo x >tool.sh; git commit -qam top",
}
"""Commands after which git has something later than the tag `base`."""

HARMLESS = {
    "nothing": "",
    "older branch": (
        "git checkout -q --orphan old; export GIT_COMMITTER_DATE='2001-01-01 00:00 +0000'; "
        "git commit -qm old; git checkout -qf main"
    ),
    "later commit on top": LATER,
}


async def opened(commands: str) -> HostWorkspace:
    prepare = by_script(f"{REPOSITORY}\n{commands}")
    return await HostWorkspace.open(prepare=prepare, base_commit="base")


async def objects(workspace: HostWorkspace) -> str:
    command = "git cat-file --batch-all-objects --batch | strings; git fsck --strict; git status -s"
    done = await workspace.run(command, timeout_s=20)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.full] if number % 3 else [])
        for number, name in enumerate(LEAKS)
    ],
)
async def test_later_commits_are_removed(name: str) -> None:
    """Nothing is left of them, the work tree stays as it is, and the removal is recorded."""
    workspace = await opened(LEAKS[name])
    try:
        assert {"1 later commits", "2 later commits"} & set(workspace.removed)  # a stash has two
        assert "solution" not in await objects(workspace)
        base = (await workspace.run("git rev-parse base", timeout_s=20)).output.strip()
        assert await inspect(workspace, base) == ()
        assert (await workspace.diff()) == ""
    finally:
        await workspace.close()


@pytest.mark.parametrize("name", HARMLESS)
async def test_everything_else_stays(name: str) -> None:
    """Earlier commits and those that were checked out are left as they are, with their logs."""
    workspace = await opened(HARMLESS[name])
    try:
        assert workspace.removed == ()
        assert (await workspace.run("git reflog | grep base", timeout_s=20)).exit_code == 0
    finally:
        await workspace.close()


async def test_what_an_agent_commits_stays() -> None:
    """Only what was there before the work is removed, in a workspace that is opened again, too."""
    workspace = await opened(LEAKS["tag"])
    try:
        before = workspace.removed
        await workspace.run(f"{LATER}; git tag mine; {BACK}", timeout_s=20)
        await workspace._begin_again()
        assert workspace.removed == before != ()
        assert (await workspace.run("git rev-parse mine", timeout_s=20)).exit_code == 0
    finally:
        await workspace.close()
