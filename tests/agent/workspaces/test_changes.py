"""Changes are detected whatever was done to git, and single files can be restored."""

from collections.abc import AsyncIterator

import pytest

from agent.workspaces import Change, HostWorkspace, Workspace
from tests.agent.commands import sh
from tests.agent.workspaces.conftest import make_repository
from tests.samples import host_and_docker

pytestmark = pytest.mark.sampled(5)

CHANGES = {
    "edit": ("echo 4 >text.txt", {"text.txt": "modified"}),
    "edit of the same length": (
        "printf 'ONE\\ntwo\\nthree\\n' >text.txt",
        {"text.txt": "modified"},
    ),
    "staged": ("echo 4 >text.txt; git add -A", {"text.txt": "modified"}),
    "committed": ("echo 4 >text.txt; git commit -qam x", {"text.txt": "modified"}),
    "committed in another history": (
        "git checkout -q --orphan o; echo 4 >text.txt; git commit -qam x; git branch -f main;"
        "git tag -f base",
        {"text.txt": "modified"},
    ),
    "new": ("mkdir d; echo new >'d/it is new'", {"d/it is new": "added"}),
    "deleted": ("git rm -q gone.txt", {"gone.txt": "deleted"}),
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
    "ignored at the opening": (
        "echo other >compiled.log; rm .gitignore",
        {".gitignore": "deleted"},
    ),
    "tracked, then ignored": (
        "echo text.txt >.git/info/exclude; git rm -q --cached text.txt; echo 4 >text.txt",
        {"text.txt": "modified"},
    ),
    "closed folder": ("echo 4 >pkg/deep/mod.py; chmod 0 pkg", {"pkg/deep/mod.py": "modified"}),
    "index gone": ("rm .git/index; echo 4 >text.txt", {"text.txt": "modified"}),
    "settings broken": ("echo '[' >.git/config; echo 4 >text.txt", {"text.txt": "modified"}),
    "nothing": ("git commit -q --allow-empty -m nothing; touch text.txt", {}),
}

MANIFEST = (
    "find . -name .git -prune -o ! -type d -printf '%P %y %m %l ' ! -type p "
    "-exec sha256sum {} ';' | sort; git -C / --version"
)


def scratch_of(workspace: Workspace) -> str:
    scratch = workspace._scratch  # type: ignore[attr-defined]
    assert isinstance(scratch, str)
    return scratch


@pytest.mark.parametrize(
    ("workspace", "command", "expected"),
    host_and_docker(CHANGES, every=3),
    indirect=["workspace"],
)
async def test_every_change_is_seen_and_restored(
    workspace: Workspace, command: str, expected: dict[str, str]
) -> None:
    """Every changed path is reported whatever git's state, and restored with its mode and type."""
    before = await sh(workspace, MANIFEST)
    await sh(workspace, command)
    changes = await workspace.changes()
    assert {change.path: change.status for change in changes} == expected
    assert changes == sorted(changes, key=lambda change: change.path)
    await workspace.put_back([change.path for change in changes])
    assert await workspace.changes() == []
    if "compiled.log" not in command:
        assert await sh(workspace, MANIFEST) == before


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
    """Restoring one path restores the whole folder and does not touch the link's target."""
    await sh(workspace, "mkdir ../away; mv pkg ../away; echo 4 >../away/pkg/deep/mod.py")
    await sh(workspace, "ln -s $PWD/../away/pkg pkg")
    await workspace.put_back(["pkg/deep/mod.py"])
    assert await workspace.changes() == []
    assert await sh(workspace, "cat ../away/pkg/deep/mod.py; rm -r ../away") == "4\n"


async def test_a_new_link_on_the_way_is_removed(workspace: Workspace) -> None:
    """Restoring a path behind a new link removes the link and does not touch its target."""
    await sh(workspace, "ln -s pkg link; ln -s / root")
    await workspace.put_back(["link/deep/mod.py", "root/etc/passwd"])
    assert await workspace.changes() == []
    assert "root" in await sh(workspace, "cat /etc/passwd")


OUTSIDE = ["", ".", "..", "../x", "pkg/../../x", "/etc/passwd", ".git/config", ".git", "a\0b"]


@pytest.mark.parametrize(
    ("workspace", "path"),
    host_and_docker({ascii(path): [path] for path in OUTSIDE}, every=9),
    indirect=["workspace"],
)
async def test_nothing_outside_is_restored(workspace: Workspace, path: str) -> None:
    """The root, paths outside the repository and git's own files are refused."""
    with pytest.raises(ValueError, match="not a path of a file inside the repository"):
        await workspace.put_back(["text.txt", path])


async def test_changes_since_a_tree(workspace: Workspace) -> None:
    """Changes since a tree are listed. Ignored files belong to no tree and are left out."""
    await sh(workspace, "echo 4 >text.txt; echo 4 >crlf.txt")
    then = await workspace.tree()
    await sh(workspace, "printf 'one\\ntwo\\nthree\\n' >text.txt; echo new >new.txt; echo x >x.log")
    assert await workspace.changes(since=then) == [
        Change("new.txt", "added"),
        Change("text.txt", "modified"),
    ]
    await sh(workspace, f"rm -rf {scratch_of(workspace)}")
    assert await workspace.changes(since=then) == [
        Change("crlf.txt", "modified"),
        Change("new.txt", "added"),
    ]


async def test_altering_the_saved_state_hides_no_change(workspace: Workspace) -> None:
    """The list of files at the opening is not read again from where commands can change it."""
    await sh(workspace, f"echo 1 >since.log; printf 'fsince.log\\0' >{scratch_of(workspace)}/files")
    assert Change("since.log", "added") in await workspace.changes()
    await sh(workspace, f"rm -rf {scratch_of(workspace)}; echo 4 >text.txt")
    assert await workspace.changes() == [
        Change("since.log", "added"),
        Change("text.txt", "modified"),
    ]
    await workspace.put_back(["text.txt"])
    assert "one\n" in await sh(workspace, "cat text.txt")


async def test_a_state_that_an_earlier_release_saved(workspace: Workspace) -> None:
    """Its list of files has no kinds, and a digest stands for what is now known otherwise."""
    old = """
    sed -z 's/^.//' files | sort -z >sorted && mv sorted files && read -r base tree _ <known &&
      echo "$base $tree $(sha256sum <files | cut -d ' ' -f 1)" >known
    """
    await sh(workspace, f"cd {scratch_of(workspace)}\n{old}")
    assert isinstance(workspace, Workspace)
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


async def test_no_checkpoint_is_the_opening(workspace: Workspace) -> None:
    """Restoring None resets files, branches and the index to their state at the opening."""
    look = "git status --porcelain --ignored; git log --all --oneline; git branch"
    before, tree = await sh(workspace, MANIFEST + ";" + look), await workspace.tree()
    await sh(workspace, "echo 4 >text.txt; git checkout -qb x; git commit -qam x; echo x >x.log")
    await workspace.restore(None)
    assert await workspace.tree() == tree
    assert await sh(workspace, MANIFEST + ";" + look) == before


async def test_an_ignored_file_that_is_added_by_force_is_seen_at_once(workspace: Workspace) -> None:
    """Adding an ignored file by force changes the tree although no file changes."""
    await sh(workspace, "echo 4 >kept.log")
    before = await workspace.tree()
    await sh(workspace, "git add -f kept.log")
    assert await workspace.tree() != before


PATCH = "--- a/text.txt\n+++ b/text.txt\n@@ -1,{count} +1,3 @@\n {one}\n-two\n+2\n three\n"


@pytest.mark.parametrize("count", [3, 7])
async def test_a_patch_is_applied(workspace: Workspace, count: int) -> None:
    """A patch is applied even if it miscounts the lines of a hunk."""
    await workspace.apply(PATCH.format(one="one", count=count))
    assert await workspace.read("text.txt") == b"one\n2\nthree\n"


NO_PATCHES = {
    "other lines": (PATCH.format(one="uno", count=3), "patch does not apply"),
    "no patch": ("no patch", "No valid patches"),
    "upwards": ("--- /dev/null\n+++ b/../x\n@@ -0,0 +1 @@\n+x\n", "invalid path"),
    "a hook": ("--- /dev/null\n+++ b/.git/hooks/x\n@@ -0,0 +1 @@\n+x\n", "invalid path"),
    "a link": ("--- /dev/null\n+++ b/link/x\n@@ -0,0 +1 @@\n+x\n", "beyond a symbolic link"),
}


@pytest.mark.parametrize(
    ("workspace", "patch", "reason"),
    host_and_docker(NO_PATCHES, every=3),
    indirect=["workspace"],
)
async def test_a_patch_that_does_not_apply_changes_nothing(
    workspace: Workspace, patch: str, reason: str
) -> None:
    """The error has git's reason, and the parts of the patch that fit are not applied either."""
    await sh(workspace, "ln -s /tmp link")
    good = "--- a/gone.txt\n+++ b/gone.txt\n@@ -1 +1 @@\n-gone\n+here\n"
    with pytest.raises(ValueError, match=reason):
        await workspace.apply(patch if patch == "no patch" else good + patch)
    assert [change.path for change in await workspace.changes()] == ["link"]


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


@pytest.fixture
async def prepared() -> AsyncIterator[Workspace]:
    """Yield a workspace whose preparation left uncommitted changes."""

    def prepare(path) -> None:  # type: ignore[no-untyped-def]
        make_repository(path)
        (path / "text.txt").write_text("prepared\n")
        (path / "pkg.egg-info").write_text("installed\n")

    workspace = await HostWorkspace.open(prepare=prepare, base_commit="base")
    yield workspace
    await workspace.close()


async def test_changes_of_the_preparation_do_not_count(prepared: Workspace) -> None:
    """Files left uncommitted by the preparation are the state that is restored."""
    assert await prepared.changes() == []
    await sh(prepared, "echo 4 >text.txt; rm pkg.egg-info; echo new >new.txt")
    assert len(await prepared.changes()) == 3
    await prepared.put_back(["text.txt"])
    assert await prepared.read("text.txt") == b"prepared\n"
    for damage in ("rm pkg.egg-info", f"rm -rf {scratch_of(prepared)}/objects; echo 5 >text.txt"):
        await sh(prepared, damage)
        await prepared.restore(None)
        assert await prepared.changes() == []
        assert await sh(prepared, "cat text.txt pkg.egg-info") == "prepared\ninstalled\n"
