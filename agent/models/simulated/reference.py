"""The reference patch by file, and comparison of the work tree's change with it."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from agent.models.damage import PROSE
from agent.models.patches import FilePatch, parse
from agent.models.simulated.conversation import Facts
from agent.types import Task

_MOST_RELATED_TESTS = 3


@dataclass(frozen=True)
class Effect:
    """The effect of a patch on one path."""

    exists: bool
    net: dict[str, int] = field(default_factory=dict)
    """Net number of occurrences added for each line.

    Unlike the removed and added lines, the net does not depend on how a diff aligns two files.
    """
    moved: bool = False
    """True if the file came from another path. `net` is then relative to that one."""


class Reference:
    """The correct answer to one task."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.files = parse(task.reference_patch)
        self.paths = {path for file in self.files for path in file.paths}
        digest = hashlib.sha256(task.id.encode()).hexdigest()[:8]
        self.anchor_name = f"test_anchor_{digest}.py"

    @property
    def parts(self) -> list[list[FilePatch]]:
        """Units that can be done in one step.

        All code files form one unit, because they depend on each other. Each prose file is its own.
        """
        code = [file for file in self.files if not file.name.endswith(PROSE)]
        prose = [[file] for file in self.files if file.name.endswith(PROSE)]
        return [code, *prose] if code else prose

    def touching(self, paths: Iterable[str]) -> list[FilePatch]:
        """Return the files of the patch that touch one of the paths, or all files if none does."""
        wanted = set(paths)
        return [file for file in self.files if wanted & set(file.paths)] or self.files

    def named_in(self, text: str) -> list[FilePatch]:
        """Return the files of the patch whose path occurs in a text, not inside another path."""
        return [
            file
            for file in self.files
            if re.search(rf"(?<![\w./-]){re.escape(file.name)}(?![\w/-])", text)
        ]

    def related(self, test_files: list[str]) -> list[str]:
        """Return a few of the test files. Those that name a touched module come first."""
        modules = {PurePosixPath(path).stem for path in self.paths}

        def names_none(test: str) -> bool:
            return not any(module in PurePosixPath(test).stem for module in modules)

        return sorted(test_files, key=names_none)[:_MOST_RELATED_TESTS]

    def changed(self, facts: Facts) -> list[FilePatch]:
        """Return the work tree's changes from the base commit, without the anchor test."""
        anchor = (facts.get("anchor") or {}).get("path")
        files = parse(facts.get("diff") or "")
        return [file for file in files if not self._is_anchor(file.name, anchor)]

    def strays(self, changed: Iterable[FilePatch]) -> list[FilePatch]:
        """Return changes of files that the correct answer does not touch."""
        return [file for file in changed if not self.paths & set(file.paths)]

    def _is_anchor(self, path: str, given: str | None) -> bool:
        return path == given or PurePosixPath(path).name == self.anchor_name


def unlike(changed: Iterable[FilePatch], wanted: Iterable[FilePatch]) -> list[str]:
    """Return the paths of `wanted` on which a change of the same base commit has another effect."""
    actual = _effects(changed)
    return [
        path for path, effect in _effects(wanted).items() if not _same(actual.get(path), effect)
    ]


def _effects(files: Iterable[FilePatch]) -> dict[str, Effect]:
    effects: dict[str, Effect] = {}
    for file in files:
        old, new = file.old_path, file.new_path
        if old and old != new:
            effects[old] = Effect(exists=False)
        if new:
            moved = old is not None and old != new
            effects[new] = Effect(exists=True, net=_net(file), moved=moved)
    return effects


def _net(file: FilePatch) -> dict[str, int]:
    lines: Counter[str] = Counter()
    for hunk in file.hunks:
        lines.update(line.rstrip("\r") for line in hunk.new_lines)
        lines.subtract(line.rstrip("\r") for line in hunk.old_lines)
    return {line: count for line, count in lines.items() if count}


def _same(actual: Effect | None, wanted: Effect) -> bool:
    if actual is None or actual.exists != wanted.exists:
        return False
    if wanted.moved and not actual.moved:
        # A diff without renames has all lines of the new file. The added ones must be among them.
        return all(actual.net.get(line, 0) >= count for line, count in wanted.net.items())
    return actual.net == wanted.net
