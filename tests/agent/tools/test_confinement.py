"""Tools cannot leave the repository, however a path is written."""

from pathlib import PurePosixPath

from agent.tools import Toolbox
from agent.workspaces import Workspace
from tests.agent.commands import sh

ESCAPES = {
    "absolute": "{outside}/file",
    "parents": "src/../../outside/file",
    "all parents": "../../../../../../../../../../..{outside}/file",
    "parents of a folder that is not there": "nowhere/../../outside/file",
    "link to a folder": "link/file",
    "link to a file": "file-link",
    "link to a file that is not there": "link/new",
    "link of a link": "src/second/file",
}

USES = [
    ("read", {}),
    ("search", {"pattern": "secret"}),
    ("write", {"content": "written"}),
    ("edit", {"old": "secret", "new": "written"}),
]


async def make_outside(workspace: Workspace) -> str:
    """Create a folder with a file outside the repository, and links to both inside it."""
    outside = str(PurePosixPath(workspace.root).parent / "outside")
    await sh(
        workspace,
        f"mkdir {outside}; echo secret >{outside}/file; ln -s {outside} link;"
        f"ln -s {outside}/file file-link; ln -s ../link src/second",
    )
    return outside


async def test_paths_cannot_leave(workspace: Workspace, implementer: Toolbox) -> None:
    """No tool reads or writes outside the repository, and the model receives the reason."""
    outside = await make_outside(workspace)
    look = f"ls {outside}; cat {outside}/file; ls"
    before = await sh(workspace, look)
    for escape in ESCAPES.values():
        path = escape.format(outside=outside)
        for tool, arguments in USES:
            result = await implementer.use(workspace, tool, {"path": path, **arguments})
            assert not result.ok
            assert "is outside the repository" in result.output
            assert "secret\n" not in result.output
        tests = await implementer.use(workspace, "run_tests", {"paths": [f"{path}::test"]})
        assert not tests.ok
        assert await sh(workspace, look) == before


async def test_patches_cannot_leave(workspace: Workspace, implementer: Toolbox) -> None:
    """A patch that names a file outside the repository, or a file of git, is refused completely."""
    outside = await make_outside(workspace)
    before = await sh(workspace, f"ls {outside} .. .git/hooks")
    for path in ("link/new", "../out", ".git/hooks/pre-commit"):
        patch = (
            "--- a/src/calc/core.py\n+++ b/src/calc/core.py\n@@ -3 +3 @@\n-    return a - b\n"
            f"+    return a + b\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+out\n"
        )
        result = await implementer.use(workspace, "apply_patch", {"patch": patch})
        assert not result.ok
        assert result.changed == []
        assert await sh(workspace, f"ls {outside} .. .git/hooks") == before


async def test_gits_files_cannot_be_written(host: Workspace, implementer: Toolbox) -> None:
    """Git's files cannot be written by name, through a link or in a nested repository."""
    await sh(host, "ln -s .git link; git init -q sub")
    before = await sh(host, "cat .git/config sub/.git/config; ls .git/hooks")
    for path in (".git/config", ".git", "link/config", "src/../.git/hooks/x", "sub/.git/config"):
        result = await implementer.use(host, "write", {"path": path, "content": "[core]\n"})
        assert not result.ok
        assert "belongs to git" in result.output
    assert await sh(host, "cat .git/config sub/.git/config; ls .git/hooks") == before


async def test_any_path_inside_is_accepted(workspace: Workspace, implementer: Toolbox) -> None:
    """Absolute paths, dots, links and odd names are accepted inside the repository."""
    await sh(workspace, "ln -s src/calc link")
    for path in (f"{workspace.root}/a b", "src/../a b", "./a b"):
        result = await implementer.use(workspace, "write", {"path": path, "content": path})
        assert (result.ok, result.changed) == (True, ["a b"])
    await implementer.use(workspace, "write", {"path": "link/it's\n-$(x)", "content": "new"})
    assert await workspace.read("src/calc/it's\n-$(x)") == b"new"


async def test_an_option_is_a_path(host: Workspace, implementer: Toolbox) -> None:
    """A path that looks like an option of a program is treated as a path."""
    named = {"paths": ["--version"]}
    refused = await implementer.use(host, "run_tests", named)
    assert refused.output == "--version is not a file of the repository"
    await host.write("--version", b"")
    result = await implementer.use(host, "run_tests", named)
    assert result.tests is not None
    assert result.tests.command.endswith(" ./--version")
    assert "no file" in (await implementer.use(host, "read", {"path": "--help"})).output
    searched = await implementer.use(host, "search", {"pattern": "--help", "path": "src"})
    assert searched.ok
