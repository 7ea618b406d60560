"""Changes are detected, put into patches and undone, whatever was done to git."""

import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent.errors import Destroyed, WorkspaceError
from agent.workspaces import Change, HostWorkspace, Workspace
from tests.agent.commands import sh
from tests.agent.workspaces.conftest import make_repository

CHANGES = {
    "edit": ("echo 4 >text.txt", {"text.txt": "modified"}),
    "edit of the same length": (
        "printf 'ONE\\ntwo\\nthree\\n' >text.txt",
        {"text.txt": "modified"},
    ),
    "staged, then edited": (
        "echo 4 >text.txt; git add -A; echo 5 >>text.txt",
        {"text.txt": "modified"},
    ),
    "committed": ("echo 4 >text.txt; git commit -qam x", {"text.txt": "modified"}),
    "committed in another history": (
        "git checkout -q --orphan o; echo 4 >text.txt; git commit -qam x; git branch -f main;"
        "git tag -f base",
        {"text.txt": "modified"},
    ),
    "base commit replaced": (
        "rm gone.txt; git replace base $(git commit-tree -m x $(git mktree </dev/null))",
        {"gone.txt": "deleted"},
    ),
    "new": (
        "mkdir d; echo new >'d/it is new'; : >empty",
        {"d/it is new": "added", "empty": "added"},
    ),
    "deleted": ("git rm -q gone.txt", {"gone.txt": "deleted"}),
    "removed from the index alone": ("git rm -q --cached gone.txt", {}),
    "renamed": ("git mv text.txt d", {"text.txt": "deleted", "d": "added"}),
    "mode": ("chmod +x text.txt", {"text.txt": "modified"}),
    "mode, hidden": ("git config core.fileMode false; chmod +x text.txt", {"text.txt": "modified"}),
    "link": ("ln -sf crlf.txt text.txt", {"text.txt": "typechange"}),
    "pipe": ("rm text.txt; mkfifo text.txt", {"text.txt": "typechange"}),
    "new pipe": ("mkfifo pipe", {"pipe": "added"}),
    "folder instead of file": (
        "rm text.txt; mkdir text.txt; echo in >text.txt/in",
        {"text.txt": "deleted", "text.txt/in": "added"},
    ),
    "link instead of folder": (
        "rm -r pkg; ln -s . pkg",
        {"pkg": "added", "pkg/deep/mod.py": "deleted"},
    ),
    "binary": (
        "printf '\\0\\3\\377' >binary.dat; head -c 5000 /dev/urandom >fresh.dat",
        {"binary.dat": "modified", "fresh.dat": "added"},
    ),
    "no newline at the end": ("printf ' and more' >>open.txt", {"open.txt": "modified"}),
    "line ends": ("printf 'un\\ndeux\\n' >crlf.txt", {"crlf.txt": "modified"}),
    "line ends, by attribute": (
        "echo '*.txt text eol=crlf' >.git/info/attributes; printf 'un\\ndeux\\n' >crlf.txt",
        {"crlf.txt": "modified"},
    ),
    "assume-unchanged": (
        "git update-index --assume-unchanged text.txt; echo 4 >text.txt",
        {"text.txt": "modified"},
    ),
    "skip-worktree": (
        "git update-index --skip-worktree text.txt; echo 4 >text.txt",
        {"text.txt": "modified"},
    ),
    "ignored": ("echo since >since.log", {"since.log": "added"}),
    "ignored, by force": ("echo 4 >kept.log; git add -f kept.log", {"kept.log": "added"}),
    "ignored by a new rule": (
        "echo '*' >.gitignore; echo new >new.txt",
        {".gitignore": "modified", "new.txt": "added"},
    ),
    "excluded": ("echo new.txt >.git/info/exclude; echo new >new.txt", {"new.txt": "added"}),
    "excluded by settings": (
        "echo new.txt >../tmp-rules; git config core.excludesFile $PWD/../tmp-rules;"
        "echo new >new.txt",
        {"new.txt": "added"},
    ),
    "in another repository": (
        "git init -q sub; echo in >sub/in; echo in >pkg/new.py; git init -q pkg",
        {"sub/in": "added", "pkg/new.py": "added"},
    ),
    "in a repository with a commit": (
        "git init -q sub; cd sub; echo in >in; git add -A;"
        "git -c user.name=T -c user.email=t@example.org commit -qm nested",
        {"sub/in": "added"},
    ),
    "not UTF-8": ("echo new >$'caf\\351'", {"caf\udce9": "added"}),
    "line break": ("echo new >$'new\\nA'", {"new\nA": "added"}),
    "tracked, then ignored": (
        "echo text.txt >.git/info/exclude; git rm -q --cached text.txt; echo 4 >text.txt",
        {"text.txt": "modified"},
    ),
    "closed folder": ("echo 4 >pkg/deep/mod.py; chmod 0 pkg", {"pkg/deep/mod.py": "modified"}),
    "index gone": ("rm .git/index; echo 4 >text.txt", {"text.txt": "modified"}),
    "index broken": ("echo broken >.git/index; echo 4 >text.txt", {"text.txt": "modified"}),
    "index locked": ("touch .git/index.lock; echo 4 >text.txt", {"text.txt": "modified"}),
    "settings broken": ("echo '[' >.git/config; echo 4 >text.txt", {"text.txt": "modified"}),
    "odd settings": (
        "git config diff.noprefix true; git config color.ui always; git config core.bare true;"
        "git config core.autocrlf true; git config core.worktree /tmp; echo 4 >text.txt",
        {"text.txt": "modified"},
    ),
    "HEAD broken": ("echo nonsense >.git/HEAD; echo 4 >text.txt", {"text.txt": "modified"}),
    "required filter": (
        "git config filter.odd.required true; git config filter.odd.clean false;"
        "echo '*.txt filter=odd' >.gitattributes; echo 4 >text.txt",
        {".gitattributes": "added", "text.txt": "modified"},
    ),
    "nothing": ("git commit -q --allow-empty -m nothing; touch text.txt", {}),
}
NOT_IN_A_PATCH = (
    "ignored, by force",
    "pipe",
    "new pipe",
    "in another repository",
    "in a repository with a commit",
)

MANIFEST = (
    "find . -name .git -prune -o ! -type d -printf '%P %y %m %l ' ! -type p "
    "-exec sha256sum {} ';' | sort; git -C / --version"
)


@pytest.fixture
async def fresh() -> AsyncIterator[HostWorkspace]:
    """Yield another workspace of the same repository."""
    workspace = await HostWorkspace.open(prepare=make_repository, base_commit="base")
    yield workspace
    await workspace.close()


@pytest.mark.parametrize("name", CHANGES)
async def test_every_change_is_seen_and_restored(
    workspace: Workspace, fresh: HostWorkspace, name: str
) -> None:
    """Every changed path is reported whatever git's state, and restored with its mode and type."""
    command, expected = CHANGES[name]
    opening, before = await workspace.tree(), await sh(workspace, MANIFEST)
    await sh(workspace, command)
    changes = await workspace.changes()
    assert {change.path: change.status for change in changes} == expected
    assert changes == sorted(changes, key=lambda change: change.path)
    patch, checkpoint = await workspace.diff(), await workspace.checkpoint()
    assert checkpoint.tree == await workspace.tree()
    if name not in NOT_IN_A_PATCH and patch:
        await fresh.apply(patch)
        assert await fresh.tree() == checkpoint.tree
    await fresh.restore(checkpoint)
    assert await fresh.tree() == checkpoint.tree
    await workspace.put_back([change.path for change in changes])
    assert await workspace.changes() == []
    assert await sh(workspace, MANIFEST) == before
    await workspace.restore(checkpoint)
    assert await workspace.tree() == checkpoint.tree
    await workspace.restore(None)
    assert (await workspace.tree(), await workspace.diff()) == (opening, "")


async def test_only_named_files_are_restored(workspace: Workspace) -> None:
    """Only the named files are restored. Other changes, ignored files and the index stay."""
    await sh(
        workspace, "echo 4 >text.txt; echo 4 >crlf.txt; echo 4 >x.log; git add -A; rm gone.txt"
    )
    status = await sh(workspace, "git status --porcelain crlf.txt gone.txt")
    await workspace.put_back(["text.txt", "nowhere/at all"])
    assert [change.path for change in await workspace.changes()] == [
        "crlf.txt",
        "gone.txt",
        "x.log",
    ]
    assert await sh(workspace, "git status --porcelain crlf.txt gone.txt") == status


async def test_a_folder_that_became_a_link_is_restored_completely(workspace: Workspace) -> None:
    """Restoring a path behind a link restores the folder and does not touch the link's target."""
    await sh(workspace, "mkdir ../away; mv pkg ../away; echo 4 >../away/pkg/deep/mod.py")
    await sh(workspace, "ln -s $PWD/../away/pkg pkg; ln -s / root")
    await workspace.put_back(["pkg/deep/mod.py", "root/etc/passwd"])
    assert await workspace.changes() == []
    assert await sh(workspace, "cat ../away/pkg/deep/mod.py; rm -r ../away") == "4\n"
    assert "root" in await sh(workspace, "cat /etc/passwd")


async def test_nothing_outside_is_restored(workspace: Workspace) -> None:
    """The root, paths outside the repository and git's own files are refused."""
    for path in ("", ".", "..", "../x", "pkg/../../x", "/etc/passwd", ".git/config", "a\0b"):
        with pytest.raises(ValueError, match="not a path of a file inside the repository"):
            await workspace.put_back(["text.txt", path])


async def test_changes_since_a_tree(workspace: Workspace) -> None:
    """They are listed, and never those since another tree. Ignored files belong to no tree."""
    await sh(workspace, "echo 4 >text.txt; echo 4 >crlf.txt")
    tree = await workspace.tree()
    await sh(workspace, "printf 'one\\ntwo\\nthree\\n' >text.txt; echo new >new.txt; echo x >x.log")
    assert await workspace.changes(since=tree) == [
        Change("new.txt", "added"),
        Change("text.txt", "modified"),
    ]
    await sh(workspace, f"rm -rf {workspace._scratch}")
    for ask in (workspace.changes, workspace.diff_since):
        with pytest.raises(Destroyed, match=f"the earlier tree {tree} is unknown"):
            await ask(tree)


async def test_altering_the_saved_state_hides_no_change(workspace: Workspace) -> None:
    """The list of files at the opening is not read again from where commands can change it."""
    await sh(workspace, f"echo 1 >since.log; printf 'fsince.log\\0' >{workspace._scratch}/files")
    assert Change("since.log", "added") in await workspace.changes()
    await sh(workspace, f"rm -rf {workspace._scratch}; echo 4 >text.txt")
    assert await workspace.changes() == [
        Change("since.log", "added"),
        Change("text.txt", "modified"),
    ]
    await workspace.put_back(["text.txt"])
    assert "one\n" in await sh(workspace, "cat text.txt")


async def test_a_state_that_an_earlier_release_saved(workspace: Workspace) -> None:
    """Its list of files has no kinds, and its list of ids a digest."""
    old = """
    sed -z 's/^.//' files | sort -z >sorted && mv sorted files && read -r base tree _ <known &&
      echo "$base $tree $(sha256sum <files | cut -d ' ' -f 1)" >known
    """
    await sh(workspace, f"cd {workspace._scratch}\n{old}")
    assert await workspace._begin_again()
    await sh(workspace, "echo 1 >since.log; rm gone.txt")
    assert await workspace.changes() == [
        Change("gone.txt", "deleted"),
        Change("since.log", "added"),
    ]


async def test_the_content_at_the_opening(workspace: Workspace) -> None:
    """The original content of an edited or deleted file is available. A new file has none."""
    await sh(workspace, "echo 4 >crlf.txt; rm gone.txt; echo new >new.txt; git add -A")
    paths = ["new.txt", "gone.txt", "nowhere/new.txt", "crlf.txt"]
    assert await workspace.originals(paths) == {
        "crlf.txt": b"un\r\ndeux\r\n",
        "gone.txt": b"gone\n",
    }
    assert await workspace.originals([]) == {}


PATCH = "--- a/text.txt\n+++ b/text.txt\n@@ -1,{count} +1,3 @@\n {one}\n-two\n+2\n three\n"

NO_PATCHES = {
    "other lines": (PATCH.format(one="uno", count=3), "patch does not apply"),
    "no patch": ("no patch", "No valid patches"),
    "upwards": ("--- /dev/null\n+++ b/../x\n@@ -0,0 +1 @@\n+x\n", "invalid path"),
    "a hook": ("--- /dev/null\n+++ b/.git/hooks/x\n@@ -0,0 +1 @@\n+x\n", "invalid path"),
    "a link": ("--- /dev/null\n+++ b/link/x\n@@ -0,0 +1 @@\n+x\n", "beyond a symbolic link"),
}


async def test_a_patch_is_applied_completely_or_not_at_all(workspace: Workspace) -> None:
    """The error has git's reason. Wrong counts of lines in a hunk are corrected."""
    await sh(workspace, "ln -s /tmp link")
    good = "--- a/gone.txt\n+++ b/gone.txt\n@@ -1 +1 @@\n-gone\n+here\n"
    for patch, reason in NO_PATCHES.values():
        with pytest.raises(ValueError, match=reason):
            await workspace.apply(patch if patch == "no patch" else good + patch)
        assert [change.path for change in await workspace.changes()] == ["link"]
    await workspace.apply(PATCH.format(one="one", count=7))
    assert await workspace.read("text.txt") == b"one\n2\nthree\n"


PATHS: list[tuple[str, str | None]] = [
    (".", "."),
    ("text.txt", "text.txt"),
    ("pkg/../text.txt", "text.txt"),
    ("nowhere/it's\n", "nowhere/it's\n"),
    ("inside", "pkg/deep"),
    ("inside/mod.py", "pkg/deep/mod.py"),
    ("..", None),
    ("/etc/passwd", None),
    ("outside/etc", None),
    ("pkg/../../x", None),
    ("-n", "-n"),
    ("self", "self"),
    ("self/../../x", None),
]


async def test_paths_are_resolved(workspace: Workspace) -> None:
    """Links anywhere in a path are followed, and a path that leaves the root resolves to None."""
    await sh(workspace, "ln -s pkg/deep inside; ln -s / outside; ln -s self self")
    for path, target in PATHS:
        assert await workspace.resolve([path]) == [target]
    paths = [path for path, _ in PATHS]
    assert await workspace.resolve(paths) == [target for _, target in PATHS]
    assert await workspace.resolve([f"{workspace.root}/text.txt"]) == ["text.txt"]
    with pytest.raises(OSError, match="cannot resolve"):
        await workspace.resolve(["text.txt", ""])


async def test_a_diff_leaves_the_repository_alone(workspace: Workspace) -> None:
    """The index and temporary files stay, and no hook or command of the repository runs."""
    hook = ".git/hooks/post-index-change"
    await sh(
        workspace,
        f"printf '#!/bin/bash\\ntouch hooked.txt' >{hook}; chmod +x {hook};"
        f"git config core.fsmonitor {hook}; echo '*.txt diff=own' >.git/info/attributes;"
        "git config diff.own.textconv 'touch hooked.txt; cat'; echo 4 >>text.txt",
    )
    look = "sha256sum .git/index .git/HEAD; find .git -type f | sort; ls -A . ${TMPDIR:-/tmp}"
    before = await sh(workspace, look)
    patch = await workspace.diff()
    assert "+4\n" in patch
    assert "hooked" not in patch
    await workspace.checkpoint()
    assert await sh(workspace, look) == before


async def test_without_its_repository_there_is_no_diff(workspace: Workspace) -> None:
    """Without .git the error says so and is not retryable."""
    await sh(workspace, "rm -rf .git")
    with pytest.raises(WorkspaceError, match=r"no diff against.*not a git repository") as caught:
        await workspace.diff()
    assert not caught.value.retryable


def make_with_endings(folder: Path) -> None:
    """Create a repository that stores LF and checks some files out with CR LF."""
    folder.mkdir()
    (folder / ".gitattributes").write_text("*.bat text eol=crlf\n*.txt text\n")
    (folder / "run.bat").write_bytes(b"one\ntwo\n")
    (folder / "note.txt").write_bytes(b"one\ntwo\n")
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.invalid"]
    commands = ["init -q", "add .", "commit -qm base", "rm -q --cached -r .", "reset -q --hard"]
    for command in commands:
        subprocess.run(["git", *identity, *command.split()], cwd=folder, check=True)


async def test_a_diff_applies_to_files_whose_line_ends_git_changes() -> None:
    """The diff applies to the opening and gives the same bytes, but it does not apply twice."""
    files = {"run.bat": b"one\r\nTWO\r\n", "note.txt": b"one\nTWO\n"}
    workspace = await HostWorkspace.open(prepare=make_with_endings, base_commit="HEAD")
    try:
        assert await workspace.read("run.bat") == b"one\r\ntwo\r\n"
        for path, content in files.items():
            await workspace.write(path, content)
        patch = await workspace.diff()
        await workspace.restore(None)
        await workspace.apply(patch)
        assert {path: await workspace.read(path) for path in files} == files
        with pytest.raises(ValueError, match="does not apply"):
            await workspace.apply(patch)
    finally:
        await workspace.close()


async def test_changes_of_the_preparation_do_not_count() -> None:
    """Files left uncommitted by the preparation are the state that is restored."""

    def prepare(path: Path) -> None:
        make_repository(path)
        (path / "text.txt").write_text("prepared\n")
        (path / "pkg.egg-info").write_text("installed\n")

    workspace = await HostWorkspace.open(prepare=prepare, base_commit="base")
    try:
        assert await workspace.changes() == []
        await sh(workspace, "echo 4 >text.txt; rm pkg.egg-info; echo new >new.txt")
        assert len(await workspace.changes()) == 3
        await workspace.put_back(["text.txt"])
        assert await workspace.read("text.txt") == b"prepared\n"
        await sh(workspace, f"rm -rf {workspace._scratch}/objects; echo 5 >text.txt")
        await workspace.restore(None)
        assert await workspace.changes() == []
        assert await sh(workspace, "cat text.txt pkg.egg-info") == "prepared\ninstalled\n"
    finally:
        await workspace.close()
