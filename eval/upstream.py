"""The source repositories of the bundled tasks, built from the patch series shipped with them.

`eval/tasks/repos/<package>` holds the complete history of a package as text. `upstream` builds a
repository from it, once per cache. `checkout` and `bundle` export the part that a task may see:
the base commit and its history, and no object of a later commit.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from eval.errors import EvalError

_SERIES = Path(__file__).parent / "tasks" / "repos"
_BUNDLED = re.compile(r"durabench/([a-z0-9]+)")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_NAME = "Durabench"
_EMAIL = "bundled@durabench.invalid"
# Part of the cache key. Increment it when repositories are built differently, so that old ones
# are not reused.
_LAYOUT = b"1"
_CHECKOUT_CONFIG = f"""\
[user]
\tname = {_NAME}
\temail = {_EMAIL}
[core]
\tautocrlf = false
\thooksPath = /dev/null
[commit]
\tgpgSign = false
[tag]
\tgpgSign = false
"""


class UpstreamError(EvalError):
    """A bundled repository cannot be built or exported. The message is one line."""


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
    target = cache.absolute() / f"{patches[0].parent.name}-{_digest(patches)}.git"
    expected = _commits(patches)[-1]
    if not target.exists():
        _build(patches, target)
    actual = _git(target, "rev-parse", "--verify", "--quiet", "refs/heads/main", check=False)
    if actual != expected:
        raise UpstreamError(f"{target} is damaged: remove it, then it will be built again")
    return target


def checkout(repo: str, base_commit: str, destination: Path, cache: Path) -> None:
    """Create a work tree at a commit, on the branch `main`, in a new or empty folder.

    Its object store holds only objects that are reachable from that commit. There are no
    remotes, and commits made in it neither run hooks nor depend on the user's configuration.
    """
    source = _source(repo, base_commit, cache)
    destination = destination.absolute()
    is_new = not destination.exists()
    if not is_new and (not destination.is_dir() or any(destination.iterdir())):
        raise UpstreamError(f"{destination} is in the way: it is not an empty folder")
    try:
        _make_folder(destination)
        _fetch(source, base_commit, destination)
        with (destination / ".git" / "config").open("a", encoding="utf-8") as config:
            config.write(_CHECKOUT_CONFIG)
        _git(destination, "read-tree", "--reset", "-u", "main")
    except BaseException:
        _empty(destination, remove=is_new)
        raise


def bundle(repo: str, base_commit: str, destination: Path, cache: Path) -> None:
    """Write a git bundle whose branch `main` is a commit, with only that commit's history."""
    source = _source(repo, base_commit, cache)
    destination = destination.absolute()
    _make_folder(destination.parent)
    # In the destination's folder, so that the final rename is atomic.
    with _temporary(destination.parent) as folder:
        _fetch(source, base_commit, folder, "--bare")
        # One thread packs in a fixed order. So the bundle is always the same, as image caches
        # need it.
        _git(folder, "-c", "pack.threads=1", "bundle", "create", "--quiet", "out", "main")
        (folder / "out").replace(destination)


def _patches(repo: str) -> list[Path]:
    folder = series(repo)
    patches = sorted(folder.glob("*.patch")) if folder else []
    if not patches:
        raise UpstreamError(f"{repo} is not a bundled repository")
    return patches


def _digest(patches: list[Path]) -> str:
    digest = hashlib.sha256(_LAYOUT)
    for patch in patches:
        content = patch.read_bytes()
        digest.update(f"{patch.name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:16]


def _commits(patches: list[Path]) -> list[str]:
    """Return the commit ids of a series. Every patch begins with `From <id>`."""
    ids = [patch.read_bytes()[5:45].decode("ascii", "replace") for patch in patches]
    for patch, commit in zip(patches, ids, strict=True):
        if not _COMMIT.fullmatch(commit):
            raise UpstreamError(f"{patch} is not a patch with a commit id")
    return ids


def _build(patches: list[Path], target: Path) -> None:
    _make_folder(target.parent)
    with _temporary(target.parent) as folder:
        work, bare = folder / "work", folder / "bare"
        _git(folder, "init", "--quiet", "--initial-branch=main", "--template=", str(work))
        _git(
            work, "am", "--quiet", "--keep-cr", "--committer-date-is-author-date",
            "--no-gpg-sign", "--", *map(str, patches),
        )  # fmt: skip
        if _git(work, "rev-list", "--reverse", "main").split() != _commits(patches):
            raise UpstreamError(f"{patches[0].parent} does not give the commits it was made of")
        # Fetch into a separate repository, which has no leftovers of applying patches.
        _git(folder, "init", "--quiet", "--bare", "--initial-branch=main", "--template=", str(bare))
        _git(bare, "fetch", "--quiet", "--no-write-fetch-head", str(work), "main:main")
        # Lets `checkout` ask for any commit by its id.
        _git(bare, "config", "uploadpack.allowAnySHA1InWant", "true")
        try:
            bare.rename(target)
        except OSError as error:
            if not target.is_dir():
                raise UpstreamError(f"cannot write {target}: {error.strerror}") from None
            # Another process was faster and built the same repository.


def _source(repo: str, base_commit: str, cache: Path) -> Path:
    """Return the upstream repository. Raise an error if it does not have that commit."""
    if base_commit not in _commits(_patches(repo)):
        raise UpstreamError(f"{base_commit!r} is not a commit of {repo}")
    return upstream(repo, cache)


def _fetch(source: Path, commit: str, folder: Path, *options: str) -> None:
    """Create a repository in `folder` whose branch `main` is the commit."""
    _git(folder, "init", "--quiet", "--initial-branch=main", "--template=", *options)
    try:
        # A reflog would name the repository that has the fix.
        _git(
            folder, "-c", "core.logAllRefUpdates=false", "fetch", "--quiet", "--no-tags",
            "--no-write-fetch-head", "--update-head-ok", str(source), f"{commit}:refs/heads/main",
        )  # fmt: skip
    except UpstreamError as error:
        message = f"{source} may be damaged, remove it and it will be built again: {error}"
        raise UpstreamError(message) from None


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UpstreamError(f"cannot make the folder {folder}: {error.strerror}") from None


def _empty(folder: Path, remove: bool) -> None:
    """Delete the content of a failed checkout."""
    if remove:
        shutil.rmtree(folder, ignore_errors=True)
        return
    for child in folder.iterdir():
        if child.is_dir() and not child.is_symlink():
            shutil.rmtree(child, ignore_errors=True)
        else:
            child.unlink()


@contextmanager
def _temporary(parent: Path) -> Iterator[Path]:
    """Create a temporary folder inside another one."""
    try:
        made = tempfile.TemporaryDirectory(
            prefix=".making-", dir=parent, ignore_cleanup_errors=True
        )
    except OSError as error:
        raise UpstreamError(f"cannot write to {parent}: {error.strerror}") from None
    with made as name:
        yield Path(name)


def _git(folder: Path, *arguments: str, check: bool = True) -> str:
    """Run git and return its output. On failure raise an `UpstreamError` of one clear line."""
    finished = _run(folder, arguments)
    if check and finished.returncode != 0:
        lines = finished.stderr.decode("utf-8", "replace").strip().splitlines()
        reason = lines[-1] if lines else f"exit code {finished.returncode}"
        raise UpstreamError(f"git {_command(arguments)} failed in {folder}: {reason}")
    return finished.stdout.decode("utf-8", "replace").strip()


def _run(folder: Path, arguments: tuple[str, ...]) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            ["git", *arguments],
            cwd=folder,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    except FileNotFoundError:
        raise UpstreamError(f"git is not on the path, or {folder} is gone") from None
    except OSError as error:
        raise UpstreamError(f"cannot run git in {folder}: {error.strerror}") from None


def _command(arguments: tuple[str, ...]) -> str:
    """Return the subcommand, without the options that precede it."""
    return arguments[2] if arguments[0] == "-c" else arguments[0]


def _environment() -> dict[str, str]:
    """Return an environment in which git ignores the user's configuration."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return {
        **kept,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        # Safe with any owner of the cache folder, because only Durabench writes there.
        "GIT_CONFIG_COUNT": "4",
        "GIT_CONFIG_KEY_0": "safe.directory",
        "GIT_CONFIG_VALUE_0": "*",
        "GIT_CONFIG_KEY_1": "core.autocrlf",
        "GIT_CONFIG_VALUE_1": "false",
        "GIT_CONFIG_KEY_2": "core.hooksPath",
        "GIT_CONFIG_VALUE_2": os.devnull,
        "GIT_CONFIG_KEY_3": "gc.auto",
        "GIT_CONFIG_VALUE_3": "0",
        "GIT_COMMITTER_NAME": _NAME,
        "GIT_COMMITTER_EMAIL": _EMAIL,
        "GIT_AUTHOR_NAME": _NAME,
        "GIT_AUTHOR_EMAIL": _EMAIL,
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C",
    }
