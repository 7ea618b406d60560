"""The reference patch by file, seeded draws, and draws of right and wrong changes.

Tries of one attempt are correlated. A whole task of n files, done once, is right with the
probability `skill`. A part of k of these files is therefore right with `skill ** (k / n)`.
"""

import hashlib
import random
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any, Literal

from agent.models.patches import FilePatch, Hunk, parse, render, renumber
from agent.models.spec import SimulatedSpec
from agent.types import Task

_CODE_SWAPS: tuple[tuple[str, str], ...] = (
    (r"==", "!="),
    (r"!=", "=="),
    (r"<=", ">"),
    (r">=", "<"),
    (r"(?<![<>=-])<(?![<>=])", ">="),
    (r"(?<![<>=-])>(?![<>=])", "<="),
    (r"\bis not\b", "is"),
    (r"\bnot in\b", "in"),
    (r"\band\b", "or"),
    (r"\bor\b", "and"),
    (r"\bTrue\b", "False"),
    (r"\bFalse\b", "True"),
    (r"\bnot\s+", ""),
    (r"\bif (.+):", r"if not (\1):"),
    (r"\breturn (?!None\b)\S.*?(?=\r?$)", "return None"),
)
PROSE = (".md", ".rst", ".txt")
"""File name endings of files without code."""

_UNRELATED = """\
diff --git a/left_undone.txt b/left_undone.txt
new file mode 100644
--- /dev/null
+++ b/left_undone.txt
@@ -0,0 +1 @@
+Nothing was changed.
"""
"""For a patch that cannot be made half right, such as one binary file or one renaming."""

Files = list[FilePatch]


def damage(patch: str, rng: random.Random) -> str:
    """Return a patch that applies to the same base commit and differs from the correct one.

    Lines that the base commit must have are not changed. Only the added lines, and how much of the
    change is made, vary.
    """
    files = parse(patch)
    unchanged = {"", patch, _text(files)}
    kinds: list[Callable[[Files, random.Random], Iterator[Files]]] = [_wrong_logic, _part_missing]
    rng.shuffle(kinds)
    for kind in (*kinds, _line_missing, _not_removed):
        for candidate in kind(files, rng):
            if (text := _text(candidate)) not in unchanged:
                return text
    return _UNRELATED


def _text(files: Files) -> str:
    return render(renumber(file) for file in files)


def _wrong_logic(files: Files, rng: random.Random) -> Iterator[Files]:
    """Change the logic in every added line of one hunk."""
    for index, number in _hunks(files, rng):
        if not str(files[index].new_path).endswith(PROSE):
            lines = tuple(_twist(line, rng) for line in files[index].hunks[number].lines)
            yield _with_lines(files, index, number, lines)


def _twist(line: str, rng: random.Random) -> str:
    code = line[1:].strip()
    if not line.startswith("+") or code.startswith(("#", '"""', "import ", "from ")):
        return line
    swaps = [swap for swap in _CODE_SWAPS if re.search(swap[0], line)]
    if swaps:
        pattern, other = rng.choice(swaps)
        return line[0] + re.sub(pattern, other, line[1:], count=1)
    return line[0] + re.sub(r"\b\d+\b", lambda digits: str(int(digits[0]) + 1), line[1:], count=1)


def _part_missing(files: Files, rng: random.Random) -> Iterator[Files]:
    """Leave out one file or one hunk of several."""
    code = [i for i, file in enumerate(files) if not str(file.new_path).endswith(PROSE)]
    if len(code) > 1:
        drop = rng.choice(code)
        yield [file for i, file in enumerate(files) if i != drop]
    for index, number in _hunks(files, rng):
        hunks = files[index].hunks
        if len(hunks) > 1:
            yield _with_hunks(files, index, hunks[:number] + hunks[number + 1 :])


def _line_missing(files: Files, rng: random.Random) -> Iterator[Files]:
    """Leave out one added line."""
    for index, number, lines, at in _lines(files, "+", rng):
        yield _with_lines(files, index, number, lines[:at] + lines[at + 1 :])


def _not_removed(files: Files, rng: random.Random) -> Iterator[Files]:
    """Keep one line that should be removed. In a deleted file, this keeps the file."""
    for index, number, lines, at in _lines(files, "-", rng):
        unremoved = (*lines[:at], " " + lines[at][1:], *lines[at + 1 :])
        yield _with_lines(files, index, number, unremoved)


def _hunks(files: Files, rng: random.Random) -> list[tuple[int, int]]:
    places = [(i, n) for i, file in enumerate(files) for n in range(len(file.hunks))]
    return rng.sample(places, len(places))


def _lines(
    files: Files, mark: str, rng: random.Random
) -> Iterator[tuple[int, int, tuple[str, ...], int]]:
    """Yield file, hunk, the hunk's lines and the position of each line with a mark, shuffled."""
    for index, number in _hunks(files, rng):
        lines = files[index].hunks[number].lines
        positions = [at for at, line in enumerate(lines) if line.startswith(mark)]
        for at in rng.sample(positions, len(positions)):
            # Git's marker for a missing final newline belongs to the line before it.
            if not lines[at + 1 : at + 2] or not lines[at + 1].startswith("\\"):
                yield index, number, lines, at


def _with_lines(files: Files, index: int, number: int, lines: tuple[str, ...]) -> Files:
    hunks = list(files[index].hunks)
    hunks[number] = replace(hunks[number], lines=lines)
    return _with_hunks(files, index, tuple(hunks))


def _with_hunks(files: Files, index: int, hunks: tuple[Hunk, ...]) -> Files:
    """Replace the hunks of one file. Drop hunks and files that no longer change anything."""
    file = replace(files[index], hunks=tuple(hunk for hunk in hunks if hunk.changes))
    if file.deletes and any(hunk.new_lines for hunk in file.hunks):
        # The deletion of the file becomes a change of it.
        old = next(line for line in file.header if line.startswith("--- "))
        new = old.replace("--- a/", "+++ b/", 1).replace('--- "a/', '+++ "b/', 1)
        header = [line for line in file.header if not line.startswith(("deleted file", "index "))]
        header = [new if line.startswith("+++ ") else line for line in header]
        file = replace(file, header=tuple(header))
    return [*files[:index], *([file] if file.hunks else []), *files[index + 1 :]]


Facts = dict[str, Any]
"""The input of a role, by name."""


@dataclass(frozen=True)
class Draws:
    """The draws of one attempt at one task."""

    identity: str
    """The seeds and the task."""

    def rng(self, purpose: str) -> random.Random:
        """Return a fresh generator that depends only on the identity and the purpose."""
        whole = f"{self.identity}/{purpose}".encode("utf-8", "surrogateescape")
        return random.Random(hashlib.sha256(whole).digest())  # noqa: S311  a seeded draw, not a secret

    def hits(self, chance: float, purpose: str) -> bool:
        """Return True with the given probability."""
        return self.rng(purpose).random() < chance


LIST_TESTS = "git ls-files -- '*test*.py' | head -n 200"
"""A command of several roles."""

_LIST_OTHER_TESTS = "git ls-files | grep -i test | head -n 200"

Language = Literal["python", "go", "javascript"]
"""The language of a task's tests."""

LANGUAGES: Mapping[str, Language] = {
    ".py": "python",
    ".go": "go",
    **dict.fromkeys((".js", ".cjs", ".mjs", ".ts"), "javascript"),
}

_ANCHOR_NAMES: Mapping[Language, str] = {
    "python": "test_anchor_{}.py",
    "go": "anchor_{}_test.go",
    "javascript": "anchor_{}.test.js",
}

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
        suffixes = [PurePosixPath(file.name).suffix for file in self.files]
        self.language: Language = next((LANGUAGES[s] for s in suffixes if s in LANGUAGES), "python")
        self.anchor_name = _ANCHOR_NAMES[self.language].format(digest)
        self.list_tests = LIST_TESTS if self.language == "python" else _LIST_OTHER_TESTS

    @property
    def parts(self) -> list[list[FilePatch]]:
        """Units that can be done in one step.

        All code files form one unit, because they depend on each other. Each prose file is another.
        """
        code = [file for file in self.files if not file.name.endswith(PROSE)]
        prose = [[file] for file in self.files if file.name.endswith(PROSE)]
        return [code, *prose] if code else prose

    def touching(self, paths: Iterable[str]) -> list[FilePatch]:
        """Return the files of the patch that touch one of the paths, or all files if none does."""
        wanted = set(paths)
        return [file for file in self.files if wanted & set(file.paths)] or self.files

    def find_named(self, text: str) -> list[FilePatch]:
        """Return the files of the patch whose path occurs in a text, not inside another path."""
        return [
            file
            for file in self.files
            if re.search(rf"(?<![\w./-]){re.escape(file.name)}(?![\w/-])", text)
        ]

    def find_related(self, test_files: list[str]) -> list[str]:
        """Return a few of the test files. Those that name a touched module come first."""
        modules = {PurePosixPath(path).stem for path in self.paths}
        unrelated_last = sorted(
            test_files,
            key=lambda path: not any(module in PurePosixPath(path).stem for module in modules),
        )
        return unrelated_last[:_MOST_RELATED_TESTS]

    def get_changes(self, facts: Facts) -> list[FilePatch]:
        """Return the work tree's changes from the base commit, without the anchor test."""
        anchor = (facts.get("anchor") or {}).get("path")
        return [
            file
            for file in parse(facts.get("diff") or "")
            if file.name != anchor and PurePosixPath(file.name).name != self.anchor_name
        ]

    def strays(self, changed: Iterable[FilePatch]) -> list[FilePatch]:
        """Return changes of files that the correct answer does not touch."""
        return [file for file in changed if not self.paths & set(file.paths)]


def unlike(changed: Iterable[FilePatch], wanted: Iterable[FilePatch]) -> list[str]:
    """Return the paths of `wanted` that a change of the same base commit affects differently."""
    effects = _effects(changed)
    paths = []
    for path, effect in _effects(wanted).items():
        actual = effects.get(path)
        if actual is None or actual.exists != effect.exists:
            paths.append(path)
        elif effect.moved and not actual.moved:
            # A diff without renames has all lines of the new file, the added ones among them.
            if any(actual.net.get(line, 0) < count for line, count in effect.net.items()):
                paths.append(path)
        elif actual.net != effect.net:
            paths.append(path)
    return paths


def _effects(files: Iterable[FilePatch]) -> dict[str, Effect]:
    effects: dict[str, Effect] = {}
    for file in files:
        old, new = file.old_path, file.new_path
        if old and old != new:
            effects[old] = Effect(exists=False)
        if new:
            lines: Counter[str] = Counter()
            for hunk in file.hunks:
                lines.update(line.rstrip("\r") for line in hunk.new_lines)
                lines.subtract(line.rstrip("\r") for line in hunk.old_lines)
            net = {line: count for line, count in lines.items() if count}
            effects[new] = Effect(exists=True, net=net, moved=old is not None and old != new)
    return effects


@dataclass(frozen=True)
class DrawnChange:
    """A change that is about to be made."""

    patch: str
    right: bool


def draw_change(
    reference: Reference, files: list[FilePatch], draws: Draws, spec: SimulatedSpec, place: str = ""
) -> DrawnChange:
    """Return the change of some files of the reference patch.

    Each `place` is another try, and the attempt's first one has the empty name. With the
    probability `correlation`, another try equals the first.
    """
    whole = len(files) == len(reference.files)
    names = ",".join(file.name for file in files)
    draw = f"{place}/{names}/"
    if not place or draws.hits(spec.correlation, f"{draw}correlation"):
        draw = "" if whole else f"first/{names}/"
    patch = reference.task.reference_patch if whole else render(files)
    right = draws.hits(spec.skill ** (len(files) / len(reference.files)), f"{draw}skill")
    return DrawnChange(patch if right else damage(patch, draws.rng(f"{draw}damage")), right)


def revert_command(patch: str) -> str:
    """Return the shell command that takes a change back to the last commit."""
    files = parse(patch)
    old = sorted({file.old_path for file in files if file.old_path})
    new = sorted({path for file in files for path in file.paths} - set(old))
    commands = [f"git checkout -q HEAD -- {shlex.join(old)}"] if old else []
    commands += [f"rm -f -- {shlex.join(new)}"] if new else []
    return " && ".join(commands)


def item(files: list[FilePatch]) -> str:
    """Return a line of the backlog for the change of some files."""
    return f"Change {', '.join(file.name for file in files)}"
