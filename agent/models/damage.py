"""Turn a correct patch into a wrong one that still applies."""

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from agent.models.patches import FilePatch, Hunk, parse, render, renumber

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
