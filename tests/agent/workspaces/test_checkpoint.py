"""A checkpoint covers the whole work tree and restores it byte by byte in any workspace."""

import random
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from agent.errors import WorkspaceError
from agent.workspaces import Checkpoint, DockerWorkspace, HostWorkspace, Workspace
from tests.agent.commands import sh
from tests.agent.workspaces.conftest import IN_DOCKER, make_repository

Opener = Callable[[], Awaitable[Workspace]]

NAMES = (
    "text.txt",
    "crlf.txt",
    "gone.txt",
    "tool.sh",
    "pkg/deep/mod.py",
    "pkg/new.py",
    "new folder/it's",
    "grüße/世界.txt",
    "-dash",
    "*?[glob]",
    "back\\slash",
    " space ",
)
OPERATIONS = (
    "mkdir -p \"$(dirname -- {a})\"; printf 'text {n}\\n' >{a}",
    "mkdir -p \"$(dirname -- {a})\"; printf 'a\\r\\nb {n}\\r\\n' >{a}",
    'mkdir -p "$(dirname -- {a})"; head -c {n} /dev/urandom >{a}',
    'mkdir -p "$(dirname -- {a})"; : >{a}',
    "printf 'more' >>{a}",
    "rm -rf -- {a}",
    "chmod +x -- {a}",
    "chmod -x -- {a}",
    'mkdir -p "$(dirname -- {b})"; mv -- {a} {b}',
    'mkdir -p "$(dirname -- {b})"; rm -rf -- {b}; ln -s -- {a} {b}',
    "rm -rf -- {a}; mkdir -p -- {a}; echo in >{a}/within",
    "echo noise >noise{n}.log",
    "printf 'x' >$'new\\nline{n}'; printf 'y' >$'latin\\351{n}'",
    "git add -A",
    "git add -A; git commit -qm work{n}",
    "git stash -u",
    "git stash pop",
    "git checkout -qfb branch{n}",
    "git checkout -qf main",
    "git reset -q --hard",
    "git reset -q --soft base",
    "git rm -rq --cached .",
    "git config core.autocrlf true",
    "git config core.fileMode false",
    "echo '*.txt text eol=crlf filter=odd ident' >.gitattributes",
    "echo '*.tmp' >>.gitignore; echo t >t{n}.tmp",
)

MANIFEST = r"""
find . -path ./.git -prune -o \( -type f -o -type l \) ! -name '*.log' ! -name '*.tmp' -print0 |
  sort -z | while IFS= read -rd '' path; do
    printf '%q ' "$path"
    if [[ -L $path ]]; then readlink -- "$path"; continue; fi
    [[ -x $path ]] && printf 'x '
    sha256sum <"$path"
  done
"""


STATUS = "git ls-files -z | xargs -0 touch -ch -d @1; git status --porcelain"
"""Touching the files makes git read all of them. Otherwise it depends on the clock
whether git sees that new attributes change an old file."""


def quoted(name: str) -> str:
    return "'./" + name.replace("'", "'\\''") + "'"


def sequence(seed: int, length: int = 14) -> list[str]:
    """Return commands as an agent might give them, the same for the same seed."""
    rng = random.Random(seed)
    return [
        rng.choice(OPERATIONS).format(
            a=quoted(rng.choice(NAMES)), b=quoted(rng.choice(NAMES)), n=rng.randrange(1, 3000)
        )
        for _ in range(length)
    ]


@pytest.fixture(params=["host", pytest.param("docker", marks=IN_DOCKER)])
async def opener(request: pytest.FixtureRequest) -> AsyncIterator[Opener]:
    """Yield a function that opens workspaces of each kind in turn. They are closed at the end."""
    opened: list[Workspace] = []

    async def open_one() -> Workspace:
        workspace: Workspace
        if request.param == "host":
            workspace = await HostWorkspace.open(prepare=make_repository, base_commit="base")
        else:
            image = request.getfixturevalue("image")
            workspace = await DockerWorkspace.open(image=image, base_commit="base")
        opened.append(workspace)
        return workspace

    yield open_one
    for workspace in opened:
        await workspace.close()


@pytest.mark.parametrize("seed", range(12))
async def test_a_checkpoint_restores_any_work(opener: Opener, seed: int) -> None:
    """After random work, a checkpoint restores the tree, files, modes and links in a fresh
    workspace and in one where other work was done."""
    first, other = await opener(), await opener()
    trees = set()
    for command in sequence(seed):
        await sh(first, command)
        trees.add(await first.tree())
    checkpoint = await first.checkpoint()
    assert checkpoint.tree in trees
    expected = await sh(first, MANIFEST)
    await first.close()

    fresh = await opener()
    await fresh.restore(checkpoint)
    assert await fresh.tree() == checkpoint.tree
    assert await sh(fresh, MANIFEST) == expected
    assert await fresh.checkpoint() == checkpoint

    await sh(other, "\n".join(sequence(seed + 1000)))
    await other.restore(checkpoint)
    assert await sh(other, MANIFEST) == expected
    assert await sh(other, "git rev-parse HEAD") == await sh(fresh, "git rev-parse base")
    assert await sh(other, STATUS) == await sh(fresh, STATUS)
    assert await other.diff() == await fresh.diff()


async def test_the_tree_depends_on_files_and_not_on_their_history(opener: Opener) -> None:
    """Files that are ignored or unignored later count as if they had always been so: the tree that
    is updated after each command equals one computed at the end."""
    kept, late = await opener(), await opener()
    for command in (
        "mkdir out; echo 1 >out/a; echo 1 >b",
        "echo out/ >>.gitignore",
        "rm gone.txt",
        "echo gone.txt >>.gitignore",
        "echo back >gone.txt",
        "echo 1 >f.log; git add -f f.log",
        "git rm -q --cached f.log",
    ):
        await sh(kept, command)
        await kept.tree()
        await sh(late, command)
    assert await kept.tree() == await late.tree()
    assert await kept.diff() == await late.diff()
    assert "f.log" not in await kept.diff()


async def test_ignored_files_of_the_start_stay(opener: Opener) -> None:
    """A restore keeps ignored files that existed at the opening and removes later ones."""
    workspace = await opener()
    base = await workspace.checkpoint()
    assert await sh(workspace, "ls *.log") == "compiled.log\n"
    await sh(workspace, "echo since >since.log; mkdir d; echo since >d/since.log; echo 4 >text.txt")
    await workspace.restore(base)
    assert await sh(workspace, "ls -d *.log d 2>/dev/null") == "compiled.log\n"


async def test_a_lost_repository_is_an_error(opener: Opener) -> None:
    """Without .git a workspace has no tree and no checkpoint. A fresh one can be restored."""
    workspace, fresh = await opener(), await opener()
    await sh(workspace, "echo 4 >text.txt")
    checkpoint = await workspace.checkpoint()
    await sh(workspace, "rm -rf .git")
    for look in (workspace.tree, workspace.checkpoint):
        with pytest.raises(WorkspaceError, match="not a git repository any more") as caught:
            await look()
        assert not caught.value.retryable
    with pytest.raises(WorkspaceError, match="not a git repository") as caught:
        await workspace.restore(checkpoint)
    assert caught.value.retryable
    await fresh.restore(checkpoint)


async def test_the_scratch_folder_may_be_destroyed(opener: Opener) -> None:
    """Without its scratch folder, computing a tree takes longer and gives the same result."""
    workspace = await opener()
    await sh(workspace, "echo 4 >text.txt; echo new >new.txt")
    checkpoint = await workspace.checkpoint()
    scratch = workspace._scratch
    await sh(workspace, f"for f in $(find {scratch} -type f); do echo broken >$f; done")
    assert await workspace.checkpoint() == checkpoint
    await sh(workspace, f"rm -rf {scratch}")
    assert await workspace.checkpoint() == checkpoint


UNFIT = {
    "empty": b"",
    "no patch": b"no patch\n",
    "other lines": b"--- a/text.txt\n+++ b/text.txt\n@@ -9 +9 @@\n-no\n+yes\n",
}


async def test_a_checkpoint_that_does_not_fit_changes_nothing(opener: Opener) -> None:
    """A delta that does not produce the named tree is refused before any file is changed."""
    workspace = await opener()
    await sh(workspace, "echo 4 >text.txt; git add -A; echo 5 >text.txt")
    before = await sh(workspace, MANIFEST + "git status --porcelain")
    for delta in UNFIT.values():
        with pytest.raises(WorkspaceError, match="no restored tree") as caught:
            await workspace.restore(Checkpoint("1" * 40, delta))
        assert caught.value.retryable
        assert await sh(workspace, MANIFEST + "git status --porcelain") == before
