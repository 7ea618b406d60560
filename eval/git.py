"""Git for repositories that Durabench keeps: run it, and export a commit with its history.

`export` and `pack` copy the part that a task may see: the base commit and its history, and no
object of a later commit.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from eval.errors import RepositoryError

NAME = "Durabench"
EMAIL = "bundled@durabench.invalid"
_CHECKOUT_CONFIG = f"""\
[user]
\tname = {NAME}
\temail = {EMAIL}
[core]
\tautocrlf = false
\thooksPath = /dev/null
[commit]
\tgpgSign = false
[tag]
\tgpgSign = false
"""


_SETTINGS = {
    "core.autocrlf": "false",
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "gc.auto": "0",
}

_LARGEST_INDEX = 2**30
"""Bytes of an index that is copied from a folder of the user."""


def export(source: Path, commit: str, destination: Path) -> None:
    """Create a work tree at a commit, on the branch `main`, in a new or empty folder.

    Its object store holds only objects that are reachable from that commit. There are no
    remotes, and commits made in it neither run hooks nor depend on the user's configuration.

    Raises:
        RepositoryError: the source lacks the commit, or the destination cannot be written.
    """
    destination = destination.absolute()
    is_new = not destination.exists()
    if not is_new and (not destination.is_dir() or any(destination.iterdir())):
        raise RepositoryError(f"{destination} is in the way: it is not an empty folder")
    try:
        make_folder(destination)
        _fetch(source, commit, destination)
        with (destination / ".git" / "config").open("a", encoding="utf-8") as config:
            config.write(_CHECKOUT_CONFIG)
        git(destination, "read-tree", "--reset", "-u", "main")
    except BaseException:
        shutil.rmtree(destination, ignore_errors=True)
        if not is_new:
            destination.mkdir(exist_ok=True)
        raise


def pack(source: Path, commit: str, destination: Path) -> None:
    """Write a git bundle whose branch `main` is a commit, with only that commit's history.

    Raises:
        RepositoryError: the source lacks the commit, or the destination cannot be written.
    """
    destination = destination.absolute()
    make_folder(destination.parent)
    # In the destination's folder, so that the final rename is atomic.
    with temporary(destination.parent) as folder:
        _fetch(source, commit, folder, "--bare")
        # One thread packs in a fixed order. So the bundle is always the same, as image caches
        # need it.
        git(folder, "-c", "pack.threads=1", "bundle", "create", "--quiet", "out", "main")
        (folder / "out").replace(destination)


def pack_since(source: Path, commit: str, base: str, destination: Path) -> None:
    """Write a git bundle of a commit, without what a repository at the base commit has.

    Raises:
        RepositoryError: the source lacks a commit, or they are the same.
    """
    ref = f"refs/bundles/{commit}"
    git(source, "update-ref", ref, commit)
    try:
        git(source, "-c", "pack.threads=1", "bundle", "create", "--quiet", str(destination), ref,
            f"^{base}")  # fmt: skip
    finally:
        git(source, "update-ref", "-d", ref)


def make_folder(folder: Path) -> None:
    """Create a folder and those above it, unless they exist."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RepositoryError(f"cannot make the folder {folder}: {error.strerror}") from None


@contextmanager
def temporary(parent: Path) -> Iterator[Path]:
    """Create a temporary folder inside another one."""
    try:
        folder = tempfile.TemporaryDirectory(
            prefix=".making-", dir=parent, ignore_cleanup_errors=True
        )
    except OSError as error:
        raise RepositoryError(f"cannot write to {parent}: {error.strerror}") from None
    with folder as name:
        yield Path(name)


def git(
    folder: Path,
    *arguments: str,
    check: bool = True,
    text: bytes = b"",
    variables: Mapping[str, str] = {},
    settings: Mapping[str, str] = {},
) -> str:
    """Run git in a folder of Durabench. Return its output.

    `text` is standard input. Git gets `settings` in its environment, so they can be secret. The
    cache can have any owner, because only Durabench writes there. So git trusts the folder.

    Raises:
        RepositoryError: git failed. The message is one line.
    """
    trust = {"safe.directory": str(folder.resolve())}
    finished = _run(folder, arguments, text, variables, {**trust, **settings})
    return _read_output(folder, arguments, finished, check)


def read(folder: Path, *arguments: str, check: bool = True) -> str:
    """Run a git command that only reads names and refs in a user's folder. Return its output.

    Git decides whether it trusts the owner of the folder.

    Raises:
        RepositoryError: git failed, or does not trust the folder. The message is one line.
    """
    return _read_output(folder, arguments, _run(folder, arguments), check)


def list_changed_files(folder: Path) -> list[str]:
    """Return the paths in a user's work tree that differ from its commit.

    A repository's configuration may name programs that git runs when it compares files. So they
    are compared through a separate git directory, which borrows the objects and the index.

    Raises:
        RepositoryError: git failed, or does not trust the folder. The message is one line.
    """
    private = Path(read(folder, "rev-parse", "--absolute-git-dir"))
    shared = folder / read(folder, "rev-parse", "--git-common-dir")
    kind = read(folder, "rev-parse", "--show-object-format")
    head = read(folder, "rev-parse", "--verify", "--quiet", "HEAD", check=False)
    with tempfile.TemporaryDirectory(prefix="durabench-status-") as name:
        ours = Path(name)
        git(ours, "init", "--quiet", "--bare", "--template=", f"--object-format={kind}")
        (ours / "objects" / "info" / "alternates").write_text(f"{shared.resolve()}/objects\n")
        if head:
            git(ours, "update-ref", "--no-deref", "HEAD", head)
        for index in (private / "index", *private.glob("sharedindex.*")):
            # A copy with its time, as git rereads files that are newer.
            try:
                status = index.lstat()
            except FileNotFoundError:
                continue  # of a repository without any file
            if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST_INDEX:
                raise RepositoryError(f"{index} is not an index of git")
            shutil.copy2(index, ours / index.name, follow_symlinks=False)
        output = git(
            ours, f"--git-dir={ours}", f"--work-tree={folder}", "-c", "core.bare=false", "status",
            "--porcelain", "-z", "--untracked-files=no", "--no-renames", "--ignore-submodules=all",
        )  # fmt: skip
    return [entry[3:] for entry in output.split("\0") if entry]


def _read_output(
    folder: Path,
    arguments: tuple[str, ...],
    finished: subprocess.CompletedProcess[bytes],
    check: bool,
) -> str:
    if check and finished.returncode != 0:
        lines = finished.stderr.decode("utf-8", "replace").strip().splitlines()
        reason = lines[-1] if lines else f"exit code {finished.returncode}"
        command = arguments[2] if arguments[0] == "-c" else arguments[0]
        raise RepositoryError(f"git {command} failed in {folder}: {reason}")
    return finished.stdout.decode("utf-8", "replace").strip()


def diff(folder: Path, base: str, head: str, paths: Sequence[str] = ()) -> str:
    """Return the difference of two commits as a patch. Bytes that are not UTF-8 are escaped.

    It is limited to `paths`, if there are any.

    Raises:
        RepositoryError: a commit is missing.
    """
    options = ("--binary", "--full-index", "--no-color", "--no-ext-diff", "--no-renames")
    finished = _run(folder, ("--literal-pathspecs", "diff", *options, base, head, "--", *paths))
    if finished.returncode != 0:
        raise RepositoryError(f"git diff failed in {folder}: {base} or {head} is missing")
    return finished.stdout.decode("utf-8", "surrogateescape")


def talk(folder: Path, *arguments: str, settings: Mapping[str, str] = {}) -> str:
    """Run a git command that reaches another repository. Return its output.

    Raises:
        RepositoryError: git failed. The message is all output of git and of the other side.
    """
    finished = _run(folder, arguments, settings=settings)
    if finished.returncode != 0:
        message = finished.stderr.decode("utf-8", "replace")
        raise RepositoryError(" ".join(message.split()) or f"exit code {finished.returncode}")
    return finished.stdout.decode("utf-8", "replace").strip()


def _fetch(source: Path, commit: str, folder: Path, *options: str) -> None:
    """Create a repository in `folder` whose branch `main` is the commit."""
    git(folder, "init", "--quiet", "--initial-branch=main", "--template=", *options)
    try:
        # A reflog would name the repository that has the fix.
        git(
            folder, "-c", "core.logAllRefUpdates=false", "fetch", "--quiet", "--no-tags",
            "--no-write-fetch-head", "--update-head-ok", str(source.absolute()),
            f"{commit}:refs/heads/main",
        )  # fmt: skip
    except RepositoryError as error:
        message = f"{source} may be damaged, remove it and it will be built again: {error}"
        raise RepositoryError(message) from None


def _run(
    folder: Path,
    arguments: tuple[str, ...],
    text: bytes = b"",
    variables: Mapping[str, str] = {},
    settings: Mapping[str, str] = {},
) -> subprocess.CompletedProcess[bytes]:
    """Run git in an environment in which it ignores the user's configuration."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    numbered = {
        f"GIT_CONFIG_{part}_{number}": value
        for number, setting in enumerate({**_SETTINGS, **settings}.items())
        for part, value in zip(("KEY", "VALUE"), setting, strict=True)
    }
    environment = {
        **inherited,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_COUNT": str(len(numbered) // 2),
        **numbered,
        "GIT_COMMITTER_NAME": NAME,
        "GIT_COMMITTER_EMAIL": EMAIL,
        "GIT_AUTHOR_NAME": NAME,
        "GIT_AUTHOR_EMAIL": EMAIL,
        "GIT_TERMINAL_PROMPT": "0",
        # A missing object is not fetched from the address in the folder's configuration.
        "GIT_NO_LAZY_FETCH": "1",
        # Without `ext`: an address could name a program.
        "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",
        "GIT_SSH_COMMAND": "ssh -o BatchMode=yes",
        "LC_ALL": "C",
        **variables,
    }
    try:
        return subprocess.run(
            ["git", *arguments],
            cwd=folder,
            env=environment,
            input=text,
            capture_output=True,
            check=False,
        )
    except FileNotFoundError:
        raise RepositoryError(f"git is not on the path, or {folder} is gone") from None
    except OSError as error:
        raise RepositoryError(f"cannot run git in {folder}: {error.strerror}") from None
