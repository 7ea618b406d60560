"""Search for leaks of a repository's future: everything in git that is newer than a commit.

An agent that finds the commit that fixed an issue need not solve it. The checked-out branch is
only one possible source. Others are a tag, a stash, a reflog, another worktree, an unreachable
object, or a second copy of the repository.
"""

import shlex
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from eval.errors import ImageError
from eval.official_shell import OfficialShell
from eval.types import GradingShell

Where = Literal[
    "base_commit",
    "branch",
    "tag",
    "remote",
    "stash",
    "reference",
    "reflog",
    "worktree",
    "pack",
    "object",
    "elsewhere",
]

_SCRIPT = Path(__file__).with_name("history.sh").read_text(encoding="utf-8")
_TIMEOUT_S = 600.0
_BEGINS = "--- durabench: history"
"""A line before the output of a function. The profile of a login shell may print lines before."""

_LISTED = 1000
"""Maximum number of commits to check, newest first. One newer commit is enough to fail."""

_SHOWN = 3

_HARNESS = "setup@swebench.config"
"""Committer of the changes that were needed to build SWE-bench images."""

_EMPTY = {
    "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391",  # the empty file
    "4b825dc642cb6eb9a060e54bf8d69288fbee4904",  # the empty folder
}

_PREFIXES: dict[str, Where] = {
    "refs/heads/": "branch",
    "refs/tags/": "tag",
    "refs/remotes/": "remote",
    "refs/stash": "stash",
}


@dataclass(frozen=True)
class Leak:
    """Something newer than the base commit, or a way to reach it."""

    where: Where
    detail: str

    def __str__(self) -> str:
        return f"{self.where}: {self.detail}"


@dataclass(frozen=True)
class _Name:
    """A name that leads to commits: a branch, a reflog, a worktree."""

    where: Where
    name: str
    ids: frozenset[str]


@dataclass(frozen=True)
class _Commit:
    id: str
    time_s: int
    """Commit time, in seconds since 1970."""
    tree: str
    committer: str
    parents: tuple[str, ...]


async def inspect(shell: GradingShell, base_commit: str) -> tuple[Leak, ...]:
    """Return everything newer than the base commit that git has in a fresh workspace.

    A commit is newer if it descends from the base commit, or if it is outside of the base
    commit's history and was committed later. In a container, other repositories and bundles
    are searched as well.

    Raises:
        ImageError: git cannot read the repository.
    """
    repository = _Repository(OfficialShell(shell), f"{shell.root}/.git", base_commit)
    if not await repository.ask("has_base || true"):
        return (Leak("base_commit", f"{base_commit} is not in the repository"),)
    newer = await repository.newer()
    leaks = await _named_or_not(repository, newer)
    leaks += [Leak("remote", line) for line in await repository.ask("remotes")]
    unindexed = await repository.ask("unindexed_packs")
    leaks += [Leak("pack", f"{name} has no index: anything can be in it") for name in unindexed]
    if not newer:
        leaks += await _unexplained(repository)
    if shell.environment == "docker":
        leaks += await _elsewhere(repository, newer)
    return tuple(leaks)


class _Repository:
    """Queries to one git folder."""

    def __init__(self, official: OfficialShell, folder: str, base_commit: str) -> None:
        self._official = official
        self._folder = folder
        self._base = base_commit

    def at(self, folder: str) -> "_Repository":
        """Return an object for the same queries to another folder or to a bundle."""
        return _Repository(self._official, folder, self._base)

    async def ask(self, function: str, **variables: str) -> list[str]:
        """Run a function of the script and return the lines that it prints.

        Raises:
            ImageError: the function fails.
        """
        known = {"base": self._base, "folder": self._folder, "limit": str(_LISTED)}
        settings = [f"{k}={shlex.quote(v)}" for k, v in {**known, **variables}.items()]
        script = "\n".join([*settings, _SCRIPT, f"echo {shlex.quote(_BEGINS)}", function])
        command = f"/bin/bash -c {shlex.quote(script)}"
        done = await self._official.run(command, timeout_s=_TIMEOUT_S)
        if done.exit_code != 0:
            raise ImageError(
                f"git cannot read {self._folder} ({function} ended with {done.exit_code}): "
                f"{done.output.strip()[-200:]}"
            )
        return done.output.partition(f"{_BEGINS}\n")[2].splitlines()

    async def newer(self) -> frozenset[str]:
        """Return the ids of the newer commits."""
        base, *others = map(_commit, await self.ask("outside_history"))
        after = _descendants(base.id, others)
        return frozenset(
            commit.id
            for commit in others
            if (commit.time_s > base.time_s or commit.id in after)
            and commit.tree != base.tree
            and commit.committer != _HARNESS
        )

    async def names(self) -> list[_Name]:
        """Return everything that names commits."""
        names = []
        for line in await self.ask("references"):
            name, *ids = line.split()
            names.append(_Name(_kind(name), name, frozenset(ids)))
        logged: dict[str, set[str]] = {}
        for line in await self.ask("logged"):
            file, _, commit = line.rpartition(":")
            logged.setdefault(file.removeprefix("./"), set()).add(commit)
        for file, ids_ in sorted(logged.items()):
            # All stashes but the latest are only in this reflog.
            log: Where = "stash" if file.endswith("/refs/stash") else "reflog"
            names.append(_Name(log, file, frozenset(ids_)))
        for line in await self.ask("worktrees"):
            path, _, commit = line.rpartition("\t")
            names.append(_Name("worktree", path, frozenset({commit})))
        return names


def _kind(reference: str) -> Where:
    for prefix, where in _PREFIXES.items():
        if reference.startswith(prefix):
            return where
    return "reference"


def _commit(line: str) -> _Commit:
    id_, time_s, tree, committer, *parents = line.rstrip().split(" ")
    return _Commit(id_, int(time_s), tree, committer, tuple(parents))


def _descendants(base: str, commits: Collection[_Commit]) -> set[str]:
    found, size = {base}, 0
    while size < len(found):
        size = len(found)
        found.update(commit.id for commit in commits if not found.isdisjoint(commit.parents))
    return found - {base}


async def _named_or_not(repository: _Repository, newer: frozenset[str]) -> list[Leak]:
    """Return a leak for each name that leads to newer commits, and for unnamed ones."""
    if not newer:
        return []
    leading = [name for name in await repository.names() if name.ids & newer]
    leaks = [Leak(n.where, f"{n.name} leads to {_some(n.ids & newer)}") for n in leading]
    unnamed = newer.difference(*(name.ids for name in leading))
    if unnamed:
        packed = set(await repository.ask("packed", wanted="\n".join(sorted(unnamed))))
        places: tuple[tuple[Where, set[str]], ...] = (
            ("pack", packed),
            ("object", set(unnamed - packed)),
        )
        leaks += [Leak(where, f"{_some(ids)}, which is newer") for where, ids in places if ids]
    return leaks


async def _unexplained(repository: _Repository) -> list[Leak]:
    """Return a leak if there is content that belongs to no commit.

    Such content is left over from a commit that was removed or never made.
    """
    found = set(await repository.ask("unexplained")) - _EMPTY
    return [Leak("object", f"{_some(found)} belongs to no commit")] if found else []


async def _elsewhere(repository: _Repository, known: frozenset[str]) -> list[Leak]:
    """Return a leak for each other copy of the repository that has newer commits."""
    leaks = []
    for path in await repository.ask("elsewhere"):
        other = repository.at(path)
        if path.endswith(".bundle"):
            newer = set(await other.ask("bundled")) - set(await repository.ask("commits"))
        elif await other.ask("has_base || true"):
            newer = set(await other.newer() - known)
        else:
            newer = set()  # a repository of another project
        if newer:
            leaks.append(Leak("elsewhere", f"{path} has {_some(newer)}"))
    return leaks


def _some(ids: Iterable[str]) -> str:
    every = sorted(ids)
    more = len(every) - _SHOWN
    shown = ", ".join(id_[:12] for id_ in every[:_SHOWN])
    return shown + (f" and {more} more" if more > 0 else "")
