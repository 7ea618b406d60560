"""Any git repository as a dataset of one instance.

A source is an address, a path, `owner/name` or the address of an issue. Its mirror in the cache is
a bare repository, fetched before each new use. An instance has the history up to its base commit.
"""

import base64
import fcntl
import hashlib
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from urllib.parse import urlsplit

from eval import git, upstream
from eval.errors import DatasetError, RepositoryError
from eval.readers import swebench
from eval.types import Instance

OWN_REFS = "refs/durabench"
"""Refs of commits that are made in a mirror. Fetching removes none of them."""

_ISSUE = re.compile(
    r"(?P<web>https?://[^/]+)/(?P<repo>[^/]+(?:/[^/]+)+?)(?:/-)?/issues/(?P<number>\d+)/?"
)
_SCP = re.compile(r"(?:\w[\w.-]*@)?(?P<host>\w[\w.-]*):(?P<path>[^/:-].*)")
_OWNER_AND_NAME = re.compile(r"[\w.-]+(?:/[\w.-]+)+")
_SCHEMES = ("http", "https", "ssh", "git", "file")

_LARGEST_TEXT = 2**20

_MISSING = re.compile(r"not found|does not exist|not appear to be a git repository", re.IGNORECASE)
_REFUSED = re.compile(
    r"authentication failed|could not read (username|password)|permission (to .* )?denied"
    r"|error: 40[13]|terminal prompts disabled|access denied",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class RepositorySource:
    """A repository's location."""

    address: str
    """The address or absolute path that git fetches from."""
    name: str
    """`owner/name`, or the name of a folder."""
    web: str | None = None
    """Address of its forge, such as `https://github.com`; None if that is unknown."""
    issue: int | None = None
    """The number of the issue that describes the task."""


@dataclass(frozen=True)
class Access:
    """A token for a forge. Git gets it in its environment, and only for the forge's address."""

    token: str = field(default="", repr=False)

    def get_git_settings(self, address: str) -> dict[str, str]:
        """Return the settings of a git command that reaches an address."""
        parts = urlsplit(address)
        if not self.token or parts.scheme not in ("http", "https"):
            return {}
        user = base64.b64encode(f"x-access-token:{self.token}".encode()).decode()
        name = f"http.{parts.scheme}://{parts.netloc}/.extraHeader"
        return {name: f"Authorization: Basic {user}"}


@dataclass(frozen=True)
class Base:
    """The commit at which work starts."""

    commit: str
    branch: str | None
    """The branch that it is the head of; None for a tag or a commit."""


def source(given: str, forge: str) -> RepositorySource:
    """Return the repository that a text names. `forge` is the address for `owner/name`.

    The forge may be in a folder of its host.

    Raises:
        DatasetError: the text names no repository, or a work tree with uncommitted changes.
    """
    forge = forge.rstrip("/")
    named = _parse(given, forge)
    if named.web is None:
        return named
    is_http = named.address.startswith(("http://", "https://"))
    is_host = urlsplit(named.web).hostname == urlsplit(forge).hostname
    is_there = named.address.startswith(f"{forge}/") if is_http else is_host
    return replace(named, web=forge) if is_there else named


def _parse(given: str, forge: str) -> RepositorySource:
    if issue := _ISSUE.fullmatch(given):
        address = f"{issue['web']}/{issue['repo']}.git"
        return RepositorySource(address, _name(issue["repo"]), issue["web"], int(issue["number"]))
    path = Path(given).expanduser()
    if path.exists():
        return _local(path.absolute())
    if "://" in given:
        return _parse_address(given)
    if given.startswith(("/", ".", "~")):
        raise DatasetError(f"{given}: there is no such folder")
    if _OWNER_AND_NAME.fullmatch(given):
        return RepositorySource(f"{forge}/{given}.git", _name(given), forge)
    if scp := _SCP.fullmatch(given):
        return RepositorySource(given, _name(scp["path"]), f"https://{scp['host']}")
    raise DatasetError(
        f"{given!r} names no repository: give an address, a path, owner/name, or the address of an "
        "issue"
    )


def _parse_address(given: str) -> RepositorySource:
    parts = urlsplit(given)
    if parts.scheme not in _SCHEMES:
        raise DatasetError(f"{parts.scheme}:// cannot be fetched from: use https or ssh")
    if parts.password or (parts.username and parts.scheme.startswith("http")):
        raise DatasetError(
            "the address of the repository contains a user or a password: leave them out and set "
            "DURABENCH_FORGE_TOKEN"
        )
    if parts.scheme == "file":
        return _local(Path(parts.path))
    scheme = parts.scheme if parts.scheme.startswith("http") else "https"
    host = parts.netloc if scheme == parts.scheme else parts.hostname
    return RepositorySource(given.rstrip("/"), _name(parts.path), f"{scheme}://{host}")


def _local(path: Path) -> RepositorySource:
    try:
        is_bare = git.read(path, "rev-parse", "--is-bare-repository") == "true"
        top = path if is_bare else Path(git.read(path, "rev-parse", "--show-toplevel"))
        if not path.resolve().is_relative_to(top.resolve()):
            raise DatasetError(f"{path} has its work tree elsewhere, in {top}: name that")
        changed = [] if is_bare else git.list_changed_files(top)
    except (RepositoryError, NotADirectoryError) as error:
        if "safe.directory" in str(error):
            raise DatasetError(
                f"{path} belongs to another user, so git does not trust it: clone it, and name "
                "the clone"
            ) from None
        raise DatasetError(f"{path} is not a git repository") from None
    if changed:
        raise DatasetError(
            f"{path} has changed files that are not committed ({len(changed)}): commit or stash "
            "them"
        )
    return RepositorySource(str(top), top.name.removesuffix(".git"))


def _name(path: str) -> str:
    return "/".join(path.strip("/").removesuffix(".git").split("/")[-2:])


def origin(given: RepositorySource, forge: str) -> RepositorySource | None:
    """Return the repository that a local one was cloned from, or None if it names none."""
    if not given.address.startswith("/"):
        return given
    path = Path(given.address)
    address = git.read(path, "config", "--get", "remote.origin.url", check=False)
    return source(address, forge) if address else None


def fetch_mirror(given: RepositorySource, cache: Path, access: Access) -> Path:
    """Return the mirror of a repository, with its current content.

    Raises:
        DatasetError: there is no such repository, or the token does not open it.
        RepositoryError: the repository cannot be reached.
    """
    target = mirror_path(given, cache)
    allowed = access.get_git_settings(given.address)
    git.make_folder(target.parent)
    with _lock(target):
        if not target.exists():
            with git.temporary(target.parent) as folder:
                bare = folder / "bare"
                git.git(folder, "init", "--quiet", "--bare", "--template=", str(bare))
                git.git(bare, "config", "uploadpack.allowAnySHA1InWant", "true")
                bare.rename(target)
        try:
            head = git.talk(
                target, "ls-remote", "--symref", "--", given.address, "HEAD", settings=allowed
            )
            git.talk(
                target, "fetch", "--quiet", "--prune", "--force", "--no-write-fetch-head",
                "--", given.address, "+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*",
                settings=allowed,
            )  # fmt: skip
        except RepositoryError as error:
            raise _explain(given, str(error)[-300:]) from None
        if default := re.match(r"ref: (refs/heads/\S+)\tHEAD", head):
            git.git(target, "symbolic-ref", "HEAD", default[1])
    return target


def mirror_path(given: RepositorySource, cache: Path) -> Path:
    """Return the location of a repository's mirror, which need not exist."""
    name = re.sub(r"[^\w.-]+", "-", given.name)
    digest = hashlib.sha256(given.address.encode()).hexdigest()[:16]
    return cache.absolute() / "mirrors" / f"{name}-{digest}.git"


@contextmanager
def _lock(target: Path) -> Iterator[None]:
    """Let one program at a time fetch into a mirror."""
    with target.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def is_refused(message: str) -> bool:
    """Return True if git or a server refuses this user."""
    return _REFUSED.search(message) is not None


def _explain(given: RepositorySource, message: str) -> Exception:
    if is_refused(message):
        return DatasetError(
            f"{given.address} does not let this user in: set DURABENCH_FORGE_TOKEN to a token that "
            f"can read it, or use ssh ({message})"
        )
    if _MISSING.search(message):
        return DatasetError(
            f"there is no repository {given.address}, or it is private: set DURABENCH_FORGE_TOKEN "
            f"({message})"
        )
    return RepositoryError(f"{given.address} cannot be fetched: {message}")


@dataclass(frozen=True)
class Mirror:
    """A mirror in the cache, and its size."""

    path: Path
    size_bytes: int


def find_unused_mirrors(cache: Path, before: datetime) -> list[Mirror]:
    """Return the mirrors into which nothing was fetched since a time."""
    mirrors = []
    for path in sorted((cache.absolute() / "mirrors").glob("*.git")):
        lock = path.with_suffix(".lock")
        if lock.exists() and lock.stat().st_mtime < before.timestamp():
            size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
            mirrors.append(Mirror(path, size))
    return mirrors


def remove_mirror(mirror: Mirror) -> None:
    """Remove a mirror, once no program fetches into it."""
    with _lock(mirror.path):
        shutil.rmtree(mirror.path, ignore_errors=True)


def base(mirror: Path, ref: str | None) -> Base:
    """Return the commit of a branch, tag or commit, by default the head of the default branch.

    Raises:
        DatasetError: there is no such ref.
    """
    if ref is None:
        head = git.git(mirror, "symbolic-ref", "--quiet", "HEAD", check=False)
        if not (commit := _commit(mirror, head)):
            raise DatasetError("the default branch of the repository has no commit: make one first")
        return Base(commit, head.removeprefix("refs/heads/"))
    if commit := _commit(mirror, f"refs/heads/{ref}"):
        return Base(commit, ref)
    for name in (f"refs/tags/{ref}", ref):
        if not ref.startswith("-") and (commit := _commit(mirror, name)):
            return Base(commit, None)
    raise DatasetError(f"the repository has no branch, tag or commit {ref!r}")


def _commit(mirror: Path, name: str) -> str:
    return git.git(mirror, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", check=False)


class CommitFiles:
    """The files of a commit, without a work tree."""

    def __init__(self, mirror: Path, commit: str) -> None:
        self._mirror, self._commit = mirror, commit
        names = git.git(mirror, "ls-tree", "-r", "-z", "--name-only", commit)
        self.paths = frozenset(filter(None, names.split("\0")))

    def text(self, path: str) -> str:
        """Return the text of a file, or '' if there is no such file.

        Raises:
            DatasetError: it is larger than any file of settings.
        """
        if path not in self.paths:
            return ""
        name = f"{self._commit}:{path}"
        if int(git.git(self._mirror, "cat-file", "-s", name, check=False) or 0) > _LARGEST_TEXT:
            raise DatasetError(f"{path} of the repository is larger than {_LARGEST_TEXT} bytes")
        return git.git(self._mirror, "show", name, check=False)


def instance(
    instance_id: str,
    given: RepositorySource,
    commit: str,
    statement: str,
    image: str,
    test_command: str,
    *,
    takes_paths: bool = True,
) -> Instance:
    """Return a task in a repository as an instance without hidden tests.

    `test_command` runs the tests that the repository has; '' if it has none. If it takes no paths,
    every run is of all tests.
    """
    whole = {} if takes_paths else {"whole_test_command": test_command}
    return swebench.parse(
        {
            "instance_id": instance_id,
            "repo": given.name,
            "version": "",
            "base_commit": commit,
            "problem_statement": statement,
            "patch": "",
            "test_patch": "",
            "image": image,
            "eval_script": f": '>>>>> Start Test Output'\n{test_command or 'false'}\n"
            ": '>>>>> End Test Output'\n",
            "log_parser": "parse_log_pytest",
            "eval_type": "pass_and_fail",
            "FAIL_TO_PASS": [],
            "PASS_TO_PASS": [],
            "mirror": mirror_path(given, Path("/")).name,
            **whole,
        },
        where=given.name,
    )


def is_here(instance: Instance, cache: Path) -> bool:
    """Return True if this machine has the repository of an instance."""
    return upstream.series(instance.repo) is not None or _mirror_of(instance, cache) is not None


def checkout(instance: Instance, destination: Path, cache: Path) -> None:
    """Create the work tree of an instance, from a mirror or a bundled repository.

    Raises:
        RepositoryError: the repository is not in the cache, or the destination cannot be written.
    """
    mirror = _mirror_of(instance, cache)
    if mirror is None:
        upstream.checkout(instance.repo, instance.base_commit, destination, cache)
    else:
        git.export(mirror, instance.base_commit, destination)


def _mirror_of(instance: Instance, cache: Path) -> Path | None:
    name = instance.row.get("mirror")
    path = cache.absolute() / "mirrors" / str(name)
    return path if name and path.is_dir() else None
