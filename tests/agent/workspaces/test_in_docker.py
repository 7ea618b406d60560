"""Each operation of a workspace, once, in a container."""

import pytest

from agent.workspaces import Change, Found
from tests.agent.commands import run, sh
from tests.agent.containers import SharedContainer

pytestmark = pytest.mark.docker


async def test_commands_and_files(shared_container: SharedContainer) -> None:
    """Commands run, end with all that they started, and files are written and read."""
    async with shared_container.workspace("base") as workspace:
        result = await run(workspace, "echo out; echo err >&2; setsid -f sleep 4321; exit 3")
        assert (result.exit_code, result.output) == (3, "out\nerr\n")
        result = await run(workspace, "echo started; sleep 4321", timeout_s=0.5)
        assert (result.exit_code, result.timed_out, result.output) == (124, True, "started\n")
        assert "sleep 4321" not in await sh(workspace, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
        content = bytes(range(256)) * 40_000
        await workspace.write("new folder/it's", content)
        assert await workspace.read("new folder/it's") == content
        await sh(workspace, "ln -s pkg also; ln -s / out")
        assert await workspace.resolve(["also", "out/etc", "."]) == ["pkg", None, "."]
        paths = ["also/deep/mod.py", "out/etc/passwd"]
        assert await workspace.look_up(paths) == [Found("pkg/deep/mod.py", b"x = 1\n"), Found(None)]
        program = "print(input()[::-1])"
        result = await workspace.run_python(program, "secret", timeout_s=20)
        assert (result.exit_code, result.output) == (0, "terces\n")


async def test_the_work_tree(shared_container: SharedContainer) -> None:
    """Changes are seen, put into patches and checkpoints, and undone."""
    async with shared_container.workspace("base") as workspace:
        opening = await workspace.tree()
        await sh(workspace, "echo 4 >text.txt; git commit -qam x; rm gone.txt; echo new >new.txt")
        tree, patch = await workspace.tree(), await workspace.diff()
        checkpoint = await workspace.checkpoint()
        assert tree != opening
        assert await workspace.changes() == [
            Change("gone.txt", "deleted"),
            Change("new.txt", "added"),
            Change("text.txt", "modified"),
        ]
        assert await workspace.originals(["text.txt"]) == {"text.txt": b"one\ntwo\nthree\n"}
        await workspace.put_back(["text.txt"])
        assert await workspace.changes(since=tree) == [Change("text.txt", "modified")]
        assert "-4\n" in await workspace.diff_since(tree)
        await workspace.restore(checkpoint)
        assert (await workspace.tree(), await workspace.holds("text.txt", b"4\n")) == (tree, True)
        await workspace.restore(None)
        assert (await workspace.tree(), await workspace.diff()) == (opening, "")
        await workspace.apply(patch)
        assert await workspace.tree() == tree
