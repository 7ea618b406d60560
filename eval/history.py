"""Search for leaks of a repository's future: everything in git that is newer than a commit.

An agent that finds the commit that fixed an issue need not solve it. The checked-out branch is
only one possible source. Others are a tag, a stash, a reflog, another worktree, an unreachable
object, or a second copy of the repository.
"""

from collections.abc import Iterable
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
    leaks = await _find_references(repository, newer) if newer else []
    leaks += [Leak("remote", line) for line in await repository.ask("remotes")]
    unindexed = await repository.ask("unindexed_packs")
    leaks += [Leak("pack", f"{name} has no index: anything can be in it") for name in unindexed]
    # Content that belongs to no commit: one that was removed, or never made.
    if not newer and (unexplained := set(await repository.ask("unexplained")) - _EMPTY):
        leaks.append(Leak("object", f"{_some(unexplained)} belongs to no commit"))
    if shell.environment == "docker":
        leaks += await _find_copies(repository, newer)
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
        variables |= {"base": self._base, "folder": self._folder, "limit": str(_LISTED)}
        done, lines = await self._official.call(_SCRIPT, function, variables, timeout_s=_TIMEOUT_S)
        if done.exit_code != 0:
            raise ImageError(
                f"git cannot read {self._folder} ({function} ended with {done.exit_code}): "
                f"{done.output.strip()[-200:]}"
            )
        return lines or []

    async def newer(self) -> frozenset[str]:
        """Return the ids of the newer commits."""
        (base, base_time, base_tree, *_), *others = (
            line.rstrip().split(" ") for line in await self.ask("outside_history")
        )
        after, size = {base}, 0
        while size < len(after):
            size = len(after)
            after.update(id_ for id_, _, _, _, *parents in others if not after.isdisjoint(parents))
        return frozenset(
            id_
            for id_, time_s, tree, committer, *_ in others
            if (int(time_s) > int(base_time) or id_ in after)
            and tree != base_tree
            and committer != _HARNESS
        )

    async def names(self) -> list[_Name]:
        """Return everything that names commits."""
        names = []
        for line in await self.ask("references"):
            name, *ids = line.split()
            kinds = (kind for prefix, kind in _PREFIXES.items() if name.startswith(prefix))
            names.append(_Name(next(kinds, "reference"), name, frozenset(ids)))
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


async def _find_references(repository: _Repository, newer: frozenset[str]) -> list[Leak]:
    """Return a leak for each name that leads to newer commits, and for unnamed ones."""
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


async def _find_copies(repository: _Repository, newer: frozenset[str]) -> list[Leak]:
    """Return a leak for each other copy of the repository that has newer commits."""
    leaks = []
    for path in await repository.ask("elsewhere"):
        other = repository.at(path)
        if path.endswith(".bundle"):
            hidden = set(await other.ask("bundled")) - set(await repository.ask("commits"))
        elif await other.ask("has_base || true"):
            hidden = set(await other.newer() - newer)
        else:
            hidden = set()  # a repository of another project
        if hidden:
            leaks.append(Leak("elsewhere", f"{path} has {_some(hidden)}"))
    return leaks


def _some(ids: Iterable[str]) -> str:
    ordered = sorted(ids)
    more = len(ordered) - _SHOWN
    listing = ", ".join(id_[:12] for id_ in ordered[:_SHOWN])
    return listing + (f" and {more} more" if more > 0 else "")
