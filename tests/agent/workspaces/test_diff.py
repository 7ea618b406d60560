"""The diff contains all changes since the base commit, and `git apply` accepts it."""

import secrets
import subprocess
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from agent.errors import WorkspaceError
from agent.workspaces import HostWorkspace, Workspace
from tests.samples import host_and_docker

pytestmark = pytest.mark.sampled(4)

CHANGES = {
    "unstaged": "echo four >>text.txt",
    "staged": "echo four >>text.txt; git add text.txt",
    "staged, then taken back": "echo four >>text.txt; git add text.txt; echo five >>text.txt",
    "committed": "echo four >>text.txt; git commit -qam more",
    "committed on another branch": "git checkout -qb other; echo 4 >text.txt; git commit -qam x",
    "committed without history": "git checkout -q --orphan o; echo 4 >text.txt; git commit -qam x",
    "new": "mkdir -p a/b; echo new >'a/b/new file.txt'",
    "new, staged": "echo new >new.txt; git add -A",
    "new, not ASCII": "echo new >$'caf\\303\\251.txt'; echo new >$'caf\\351.txt'",
    "deleted": "rm gone.txt",
    "deleted, staged": "git rm -q gone.txt",
    "removed from the index alone": "git rm -q --cached gone.txt",
    "renamed": "git mv text.txt moved.txt",
    "folder instead of file": "rm text.txt; mkdir text.txt; echo in >text.txt/in",
    "binary": "printf '\\0\\3\\377' >binary.dat; head -c 5000 /dev/urandom >fresh.dat",
    "crlf": "printf 'trois\\r\\n' >>crlf.txt",
    "crlf to lf": "printf 'un\\ndeux\\n' >crlf.txt",
    "not UTF-8": "printf '\\351t\\351\\n' >>latin.txt",
    "no newline at the end": "printf ' and more' >>open.txt",
    "mode": "chmod +x tool.sh",
    "symbolic link": "ln -s text.txt link",
    "empty file": ": >empty.txt",
    "ignored file, added by force": "echo log >kept.log; git add -f kept.log",
    "ignored file, committed": "echo log >kept.log; git add -f kept.log; git commit -qm log",
    "hidden by a flag": "git update-index --assume-unchanged text.txt; echo 4 >text.txt",
    "hidden by sparse checkout": "git sparse-checkout set pkg 2>/dev/null; echo 4 >text.txt",
    "index broken": "echo 4 >text.txt; echo broken >.git/index",
    "index locked": "echo 4 >text.txt; touch .git/index.lock",
    "odd settings": (
        "echo 4 >text.txt; git config diff.noprefix true; git config color.ui always;"
        "git config diff.external false; git config core.autocrlf true;"
        "git config diff.relative true; git config core.fileMode false; chmod +x tool.sh"
    ),
    "base commit replaced": (
        "rm gone.txt; git replace base $(git commit-tree -m x $(git mktree </dev/null))"
    ),
    "everything": "rm compiled.log; git rm -rqf . && echo only >only.txt",
}


def files(folder: Path) -> dict[str, tuple[bytes, bool]]:
    """Return content and executable bit of every file outside .git that is not ignored, by path."""
    listed = subprocess.run(
        ["git", "ls-files", "-zco"], cwd=folder, check=True, capture_output=True
    ).stdout
    found = {}
    for name in filter(None, listed.split(b"\0")):
        path = folder / name.decode(errors="surrogateescape")
        if path.is_symlink():
            found[str(path.relative_to(folder))] = (str(path.readlink()).encode(), False)
        elif path.is_file():
            found[str(path.relative_to(folder))] = (path.read_bytes(), path.stat().st_mode & 1 > 0)
    return found


def unpack(archive: bytes, folder: Path) -> Path:
    folder.mkdir()
    subprocess.run(["tar", "-xf", "-"], cwd=folder, input=archive, check=True)
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    return folder


def apply(patch: str, folder: Path) -> None:
    subprocess.run(
        ["git", "apply", "--allow-empty", "-"],
        cwd=folder,
        input=patch.encode(errors="surrogateescape"),
        check=True,
    )


async def archive(workspace: Workspace, command: str) -> bytes:
    """Return the content that `command` writes to the file of its first argument."""
    path = f"/tmp/{secrets.token_hex(8)}.tar"
    result = await workspace.run(f"archive() {{ {command}; }}; archive {path}", timeout_s=20)
    assert result.exit_code == 0, result.output
    content = await workspace.read(path)
    await workspace.run(f"rm {path}", timeout_s=20)
    return content


@pytest.mark.parametrize(
    ("workspace", "change"),
    host_and_docker({name: [change] for name, change in CHANGES.items()}, every=3),
    indirect=["workspace"],
)
async def test_the_diff_rebuilds_the_change(
    workspace: Workspace, change: str, tmp_path: Path
) -> None:
    """The diff, applied to the base commit, gives the files of the workspace byte by byte."""
    result = await workspace.run(change, timeout_s=20)
    assert result.exit_code == 0, result.output
    patch = await workspace.diff()

    git = "GIT_NO_REPLACE_OBJECTS=1 git -c core.autocrlf=false"
    base = unpack(await archive(workspace, f'{git} archive -o "$1" base'), tmp_path / "base")
    apply(patch, base)
    now = unpack(
        await archive(workspace, 'tar --exclude=.git --exclude=compiled.log -cf "$1" .'),
        tmp_path / "now",
    )
    assert files(base) == files(now)


async def test_no_change_is_no_diff(workspace: Workspace) -> None:
    """An untouched workspace has an empty diff, apart from ignored files."""
    await workspace.run("touch text.txt; echo noise >noise.log", timeout_s=20)
    assert await workspace.diff() == ""


async def test_the_diff_leaves_the_agents_index_alone(workspace: Workspace) -> None:
    """Taking a diff does not change the index and leaves no scratch file."""
    await workspace.run("echo 4 >text.txt; git add text.txt; echo new >new.txt", timeout_s=20)
    before = await workspace.run("git status --porcelain; ls -A ${TMPDIR:-/tmp}", timeout_s=20)
    assert await workspace.diff()
    after = await workspace.run("git status --porcelain; ls -A ${TMPDIR:-/tmp}", timeout_s=20)
    assert "M  text.txt\n?? new.txt\n" in before.output
    assert after.output == before.output


async def test_a_nested_repository_does_not_hide_the_rest(workspace: Workspace) -> None:
    """A repository created below the root, which git refuses to add, hides no other change."""
    await workspace.run("mkdir sub; git init -q sub; echo 4 >>text.txt", timeout_s=20)
    assert "+4\n" in await workspace.diff()


async def test_hooks_and_settings_of_the_agent_do_not_run(workspace: Workspace) -> None:
    """Taking a diff runs none of the hooks or commands that the agent configured."""
    hook = ".git/hooks/post-index-change"
    await workspace.run(
        f"printf '#!/bin/bash\\ntouch hooked.txt' >{hook}; chmod +x {hook};"
        f"git config core.fsmonitor {hook}; echo '*.txt diff=own' >.git/info/attributes;"
        "git config diff.own.textconv 'touch hooked.txt; cat'; echo 4 >>text.txt",
        timeout_s=20,
    )
    assert "hooked" not in await workspace.diff()
    assert "+4\n" in await workspace.diff()


async def test_without_its_repository_there_is_no_diff(workspace: Workspace) -> None:
    """Without .git the error says so and is not retryable."""
    await workspace.run("rm -rf .git", timeout_s=20)
    with pytest.raises(
        WorkspaceError, match=r"no diff against base.*not a git repository"
    ) as caught:
        await workspace.diff()
    assert not caught.value.retryable


ENDINGS = "*.bat text eol=crlf\n*.txt text\n"


def with_endings(folder: Path) -> None:
    """Create a repository that stores LF and checks some files out with CR LF."""
    folder.mkdir()
    (folder / ".gitattributes").write_text(ENDINGS)
    (folder / "run.bat").write_bytes(b"one\ntwo\n")
    (folder / "note.txt").write_bytes(b"one\ntwo\n")
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.invalid"]
    commands = ["init -q", "add .", "commit -qm base", "rm -q --cached -r .", "reset -q --hard"]
    for command in commands:
        subprocess.run(["git", *identity, *command.split()], cwd=folder, check=True)


async def test_a_diff_applies_to_files_whose_line_ends_git_changes() -> None:
    """The diff applies in a fresh workspace and gives the same bytes."""
    changed = {"run.bat": b"one\r\nTWO\r\n", "note.txt": b"one\nTWO\n"}
    async with AsyncExitStack() as opened:
        first, fresh = [
            await HostWorkspace.open(prepare=with_endings, base_commit="HEAD") for _ in range(2)
        ]
        opened.push_async_callback(first.close)
        opened.push_async_callback(fresh.close)
        assert await first.read("run.bat") == b"one\r\ntwo\r\n"
        for path, content in changed.items():
            await first.write(path, content)
        await fresh.apply(await first.diff())
        assert {path: await fresh.read(path) for path in changed} == changed
        with pytest.raises(ValueError, match="does not apply"):
            await fresh.apply(await first.diff())
