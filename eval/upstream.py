"""The source repositories of the bundled tasks, built from the patch series shipped with them.

`eval/tasks/repos/<package>` holds the complete history of a package as text. `upstream` builds a
repository from it, once per cache. `checkout` and `bundle` export the part that a task may see:
the base commit and its history, and no object of a later commit.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from eval import git
from eval.errors import RepositoryError

_SERIES = Path(__file__).parent / "tasks" / "repos"
_BUNDLED = re.compile(r"durabench/([a-z0-9]+)")
_COMMIT = re.compile(r"[0-9a-f]{40}")
# Part of the cache key. Increment it when repositories are built differently, so that old ones
# are not reused.
_LAYOUT = b"1"


def series(repo: str) -> Path | None:
    """Return the folder with the patch series of a repository, or None if it is not bundled."""
    match = _BUNDLED.fullmatch(repo)
    if match is None or not (_SERIES / match[1]).is_dir():
        return None
    return _SERIES / match[1]


def upstream(repo: str, cache: Path) -> Path:
    """Return a bare repository of the complete history, with the branch `main`.

    The repository is built if it is missing. Concurrent callers may build it at the same time.
    The first one to finish wins.
    """
    patches = _patches(repo)
    digest = hashlib.sha256(_LAYOUT)
    for patch in patches:
        content = patch.read_bytes()
        digest.update(f"{patch.name}\0{len(content)}\0".encode() + content)
    target = cache.absolute() / f"{patches[0].parent.name}-{digest.hexdigest()[:16]}.git"
    expected = _commits(patches)[-1]
    if not target.exists():
        _build(patches, target)
    actual = git.git(target, "rev-parse", "--verify", "--quiet", "refs/heads/main", check=False)
    if actual != expected:
        raise RepositoryError(f"{target} is damaged: remove it, then it will be built again")
    return target


def checkout(repo: str, base_commit: str, destination: Path, cache: Path) -> None:
    """Create a work tree of a bundled repository at a commit; see `eval.git.export`."""
    git.export(_source(repo, base_commit, cache), base_commit, destination)


def bundle(repo: str, base_commit: str, destination: Path, cache: Path) -> None:
    """Write a git bundle of a bundled repository up to a commit; see `eval.git.pack`."""
    git.pack(_source(repo, base_commit, cache), base_commit, destination)


def _patches(repo: str) -> list[Path]:
    folder = series(repo)
    patches = sorted(folder.glob("*.patch")) if folder else []
    if not patches:
        raise RepositoryError(f"{repo} is not a bundled repository")
    return patches


def _commits(patches: list[Path]) -> list[str]:
    """Return the commit ids of a series. Every patch begins with `From <id>`."""
    ids = [patch.read_bytes()[5:45].decode("ascii", "replace") for patch in patches]
    for patch, commit in zip(patches, ids, strict=True):
        if not _COMMIT.fullmatch(commit):
            raise RepositoryError(f"{patch} is not a patch with a commit id")
    return ids


def _build(patches: list[Path], target: Path) -> None:
    git.make_folder(target.parent)
    with git.temporary(target.parent) as folder:
        work, bare = folder / "work", folder / "bare"
        git.git(folder, "init", "--quiet", "--initial-branch=main", "--template=", str(work))
        git.git(
            work, "am", "--quiet", "--keep-cr", "--committer-date-is-author-date",
            "--no-gpg-sign", "--", *map(str, patches),
        )  # fmt: skip
        if git.git(work, "rev-list", "--reverse", "main").split() != _commits(patches):
            raise RepositoryError(f"{patches[0].parent} does not give its own commits")
        # Fetch into a separate repository, which has no leftovers of applying patches.
        git.git(
            folder, "init", "--quiet", "--bare", "--initial-branch=main", "--template=", str(bare)
        )
        git.git(bare, "fetch", "--quiet", "--no-write-fetch-head", str(work), "main:main")
        # Lets `checkout` ask for any commit by its id.
        git.git(bare, "config", "uploadpack.allowAnySHA1InWant", "true")
        try:
            bare.rename(target)
        except OSError as error:
            if not target.is_dir():
                raise RepositoryError(f"cannot write {target}: {error.strerror}") from None
            # Another process was faster and built the same repository.


def _source(repo: str, base_commit: str, cache: Path) -> Path:
    """Return the upstream repository. Raise an error if it does not have that commit."""
    if base_commit not in _commits(_patches(repo)):
        raise RepositoryError(f"{base_commit!r} is not a commit of {repo}")
    return upstream(repo, cache)
