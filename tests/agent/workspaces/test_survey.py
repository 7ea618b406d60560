"""Git is asked about the work tree only when something in it has changed."""

import asyncio
from typing import Any

import pytest

from agent.workspaces import Change, Workspace
from tests.agent.commands import sh


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The functions of `work_tree.sh` that were called."""
    calls: list[str] = []
    work_tree = Workspace._work_tree

    async def counted(self: Workspace, work: str, **options: Any) -> Any:
        calls.append(work.splitlines()[-1].removeprefix("firmly "))
        return await work_tree(self, work, **options)

    monkeypatch.setattr(Workspace, "_work_tree", counted)
    return calls


async def settle(workspace: Workspace) -> None:
    """Let the tick of the clock end in which the last change was made, and look once more."""
    await sh(workspace, "sleep 0.05")
    await workspace.changes()
    await sh(workspace, "sleep 0.05")
    await workspace.changes()


async def test_one_look_for_all_questions_about_an_edit(
    workspace: Workspace, asked: list[str]
) -> None:
    """Changes, tree, the changes since the tree before, and the checkpoint."""
    await settle(workspace)
    before = await workspace.tree()
    asked.clear()
    await workspace.write("text.txt", b"four\n")
    assert await workspace.changes() == [Change("text.txt", "modified")]
    tree = await workspace.tree()
    assert tree != before
    assert await workspace.changes(since=before) == [Change("text.txt", "modified")]
    checkpoint = await workspace.checkpoint()
    assert (checkpoint.tree, b"+four" in checkpoint.delta) == (tree, True)
    assert asked == ["survey"]


async def test_an_edit_before_a_look_is_no_change_after_it(
    workspace: Workspace, asked: list[str]
) -> None:
    """The clock's tick is all that the edit and the look must not share."""
    await workspace.write("text.txt", b"four\n")
    await asyncio.sleep(0.015)
    changes = await workspace.changes()
    await sh(workspace, "cat text.txt")
    assert await workspace.changes() == changes
    assert asked == ["survey"]


@pytest.mark.parametrize(
    ("command", "changes"),
    [
        ("echo new >new.txt", [Change("new.txt", "added")]),
        ("echo new >new.log", [Change("new.log", "added")]),
        ("rm gone.txt", [Change("gone.txt", "deleted")]),
        ("chmod +x text.txt", [Change("text.txt", "modified")]),
        ("mkdir d; echo >d/kept.log; git add -f d", [Change("d/kept.log", "added")]),
    ],
)
async def test_every_change_is_noticed(
    workspace: Workspace, command: str, changes: list[Change]
) -> None:
    """Also of files that git ignores, which are in no tree."""
    await settle(workspace)
    assert await workspace.changes() == []
    await sh(workspace, command)
    assert await workspace.changes() == changes
    await workspace.put_back([change.path for change in changes])
    assert await workspace.changes() == []


async def test_the_time_of_the_last_look_cannot_be_forged(workspace: Workspace) -> None:
    """It is not kept where commands can change it."""
    await settle(workspace)
    assert isinstance(workspace, Workspace)
    forge = f"for f in {workspace._scratch}/*; do touch -d '+1 day' \"$f\"; done"
    await sh(workspace, f"touch {workspace._scratch}/stamp; {forge}; echo 4 >text.txt")
    assert await workspace.changes() == [Change("text.txt", "modified")]


async def test_a_restored_tree_is_known(workspace: Workspace, asked: list[str]) -> None:
    """It was verified. What changes afterwards is noticed."""
    await sh(workspace, "echo new >new.txt")
    kept = await workspace.checkpoint()
    await sh(workspace, "echo other >new.txt; rm text.txt; sleep 0.05")
    await workspace.restore(kept)
    await sh(workspace, "sleep 0.05; ls")
    assert await workspace.tree() == kept.tree
    assert await workspace.checkpoint() == kept
    assert await workspace.changes() == [Change("new.txt", "added")]
    await workspace.restore(None)
    assert await workspace.changes() == []
    await sh(workspace, "rm text.txt")
    assert await workspace.changes() == [Change("text.txt", "deleted")]


async def test_a_large_difference_is_a_checkpoint_of_its_own(workspace: Workspace) -> None:
    """It is not sent with every tree."""
    await sh(workspace, "head -c 6000000 /dev/urandom >large.dat")
    assert await workspace.changes() == [Change("large.dat", "added")]
    checkpoint = await workspace.checkpoint()
    assert checkpoint.tree == await workspace.tree()
    assert len(checkpoint.delta) > 6_000_000


async def test_a_diff_without_some_files(workspace: Workspace) -> None:
    """Their names are taken literally, and the work tree stays as it is."""
    await sh(workspace, "mkdir d; for n in a.txt '*.txt' d/é.txt ' b'; do echo x >\"$n\"; done")
    patch = await workspace.diff(without=["*.txt", "d/é.txt"])
    assert "+++ b/a.txt" in patch
    assert "b/ b" in patch
    assert patch.count("\n+x") == 2
    assert (await workspace.diff()).count("\n+x") == 4


async def test_content_at_a_path(workspace: Workspace) -> None:
    """A link to a file of that content is not it."""
    await sh(workspace, "ln -s text.txt link; ln -s pkg also; echo one >'a file'")
    assert await workspace.holds("text.txt", b"one\ntwo\nthree\n")
    assert await workspace.holds("a file", b"one\n")
    assert not await workspace.holds("text.txt", b"one\n")
    assert not await workspace.holds("link", b"one\ntwo\nthree\n")
    assert not await workspace.holds("also/deep/mod.py", b"x = 1\n")
    assert not await workspace.holds("nothing", b"")
    assert not await workspace.holds("pkg", b"")


async def test_the_content_of_a_new_file_is_known_from_the_last_look(
    workspace: Workspace, asked: list[str]
) -> None:
    """Also once another command has changed it, or put a link or an unreadable file there."""
    await workspace.write("new.txt", b"new\n")
    await workspace.changes()
    assert await workspace.holds("new.txt", b"new\n")
    assert not await workspace.holds("new.txt", b"other\n")
    for command in ("echo old >new.txt", "mv new.txt it; ln -s it new.txt", "rm new.txt"):
        await sh(workspace, command)
        assert not await workspace.holds("new.txt", b"new\n")
        await workspace.changes()
        assert not await workspace.holds("new.txt", b"new\n")
    assert set(asked) == {"survey"}
