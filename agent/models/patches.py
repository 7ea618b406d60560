"""Unified diffs as data: enough of git's format to change one and write it back."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@(.*)", re.DOTALL)
_NO_NEWLINE = "\\"
_BINARY = "GIT binary patch"
_SIDES = (
    ("--- a/", "+++ b/"),
    ('--- "a/', '+++ "b/'),
    ("--- /dev/null", "+++ /dev/null"),
    ("old mode ", "new mode "),
    ("new file mode ", "deleted file mode "),
)
"""Pairs of header line prefixes with the same meaning for the old and for the new side."""


@dataclass(frozen=True)
class Hunk:
    """One `@@` block. Lines keep their first character and a carriage return, not the newline."""

    old_start: int
    new_start: int
    section: str
    """Text after the second `@@`."""
    lines: tuple[str, ...]

    @property
    def old_lines(self) -> tuple[str, ...]:
        """The lines before the change, without their first character."""
        return tuple(line[1:] for line in self.lines if _kind(line) in " -")

    @property
    def new_lines(self) -> tuple[str, ...]:
        """The lines after the change, without their first character."""
        return tuple(line[1:] for line in self.lines if _kind(line) in " +")

    @property
    def changes(self) -> bool:
        return any(_kind(line) in "+-" for line in self.lines)


@dataclass(frozen=True)
class FilePatch:
    """The part of a diff that changes one file."""

    header: tuple[str, ...]
    """Every line before the first hunk; for a binary file, all of them."""
    hunks: tuple[Hunk, ...]

    @property
    def old_path(self) -> str | None:
        """The path before the change; None for a new file."""
        return self._path("--- ", "rename from ", 0)

    @property
    def new_path(self) -> str | None:
        """The path after the change; None for a deleted file."""
        return self._path("+++ ", "rename to ", 1)

    @property
    def paths(self) -> tuple[str, ...]:
        """Every path that the change touches: two for a renamed file."""
        return tuple(dict.fromkeys(path for path in (self.old_path, self.new_path) if path))

    @property
    def name(self) -> str:
        """The path to display: the new one, if there is one."""
        return self.paths[-1]

    @property
    def is_binary(self) -> bool:
        return _BINARY in self.header

    @property
    def deletes(self) -> bool:
        return any(line.startswith(("deleted file", "+++ /dev/null")) for line in self.header)

    @property
    def creates(self) -> bool:
        return any(line.startswith(("new file", "--- /dev/null")) for line in self.header)

    def _path(self, mark: str, rename: str, side: int) -> str | None:
        if (self.creates, self.deletes)[side]:
            return None
        for line in self.header:
            if line.startswith(mark):
                name = line.removeprefix(mark).rstrip("\r").split("\t")[0]
                return _unquote(name).split("/", 1)[1]
            if line.startswith(rename):
                return _unquote(line.removeprefix(rename))
        both = self.header[0].removeprefix("diff --git ").rstrip("\r")  # `a/P b/P`, P with spaces
        return _unquote(both[: (len(both) - 1) // 2]).split("/", 1)[1]


def parse(patch: str) -> list[FilePatch]:
    """Return the files of a diff, in order. `render(parse(p)) == p` for git's output."""
    lines = patch.split("\n")
    if lines[-1] == "":
        lines.pop()
    files: list[FilePatch] = []
    position = 0
    while position < len(lines):
        heading = _HUNK.match(lines[position])
        if heading and files:
            hunk, position = _read_hunk(heading, lines, position + 1)
            files[-1] = replace(files[-1], hunks=(*files[-1].hunks, hunk))
            continue
        in_header = bool(files) and not files[-1].hunks
        following = lines[position + 1] if position + 1 < len(lines) else ""
        is_plain = lines[position].startswith("--- ") and following.startswith("+++ ")
        if lines[position].startswith("diff --git ") or (is_plain and not in_header):
            files.append(FilePatch((), ()))
        if files and not files[-1].hunks:
            files[-1] = replace(files[-1], header=(*files[-1].header, lines[position]))
        position += 1
    return files


def _read_hunk(heading: re.Match[str], lines: list[str], position: int) -> tuple[Hunk, int]:
    old_left, new_left = (1 if heading[n] is None else int(heading[n]) for n in (2, 4))
    start = position
    while position < len(lines) and (
        old_left > 0 or new_left > 0 or lines[position].startswith(_NO_NEWLINE)
    ):
        kind = _kind(lines[position])
        old_left -= kind in " -"
        new_left -= kind in " +"
        position += 1
    body = tuple(line or " " for line in lines[start:position])  # some tools trim blank context
    return Hunk(int(heading[1]), int(heading[3]), heading[5], body), position


def render(files: Iterable[FilePatch]) -> str:
    """Return the diff as text, with line numbers recomputed from its hunks."""
    lines: list[str] = []
    for file in files:
        lines += file.header
        for hunk in file.hunks:
            old = _range(hunk.old_start, len(hunk.old_lines))
            new = _range(hunk.new_start, len(hunk.new_lines))
            lines += (f"@@ -{old} +{new} @@{hunk.section}", *hunk.lines)
    return "".join(f"{line}\n" for line in lines)


def renumber(file: FilePatch) -> FilePatch:
    """Return the same hunks, with new-side line numbers computed from their old-side ones."""
    shift, hunks = 0, []
    for hunk in file.hunks:
        # An empty side names the line before it, hence the two corrections.
        start = hunk.old_start + shift + (not hunk.old_lines) - (not hunk.new_lines)
        hunks.append(replace(hunk, new_start=start))
        shift += len(hunk.new_lines) - len(hunk.old_lines)
    return replace(file, hunks=tuple(hunks))


def invert(file: FilePatch) -> FilePatch:
    """Return the patch that reverts a change, including a binary one.

    Renamed files are not supported: `Workspace.diff` writes a renaming as a deletion and an
    addition.
    """
    opposite = {"+": "-", "-": "+"}
    hunks = tuple(
        Hunk(
            hunk.new_start,
            hunk.old_start,
            hunk.section,
            tuple(opposite.get(line[:1], line[:1]) + line[1:] for line in hunk.lines),
        )
        for hunk in file.hunks
    )
    header = file.header
    end = header.index(_BINARY) + 1 if _BINARY in header else len(header)
    lines = [_other_side(line) for line in header[:end]]
    for at in range(len(lines) - 1):  # the old side precedes the new one
        if lines[at].startswith(("+++ ", "new mode ")):
            lines[at], lines[at + 1] = lines[at + 1], lines[at]
    # A binary change and its reverse, each of which ends in an empty line.
    data = header[end:]
    middle = data.index("") + 1 if "" in data else 0
    return FilePatch((*lines, *data[middle:], *data[:middle]), hunks)


def _other_side(line: str) -> str:
    for old, new in _SIDES:
        for mark, opposite in ((old, new), (new, old)):
            if line.startswith(mark):
                return opposite + line.removeprefix(mark)
    if index := re.fullmatch(r"index (\w+)\.\.(\w+)(.*)", line):
        return f"index {index[2]}..{index[1]}{index[3]}"
    return line


def _range(start: int, count: int) -> str:
    return str(start) if count == 1 else f"{start},{count}"


def _kind(line: str) -> str:
    return line[:1] or " "


def _unquote(name: str) -> str:
    """Undo git's C-style quoting, which writes bytes beyond ASCII as octal escapes."""
    if not name.startswith('"'):
        return name
    raw = name[1:-1].encode("latin-1", "backslashreplace").decode("unicode_escape")
    return raw.encode("latin-1").decode("utf-8", "surrogateescape")


def are_wanted(messages: Iterable[Mapping[str, Any]]) -> bool:
    """Return True if a conversation explains the blocks."""
    return any("SEARCH/REPLACE" in str(message.get("content")) for message in messages)


def reply(patch: str, messages: Iterable[Mapping[str, Any]]) -> str:
    """Return the change of a patch as blocks, one for each hunk of a text file.

    A file that is removed becomes empty. A program without any of the files only adds them to the
    conversation at first, so the change is repeated once. After that, the reply is a last word.
    """
    blocks = []
    for file in parse(patch):
        for hunk in file.hunks if not file.is_binary else ():
            sides = [*hunk.old_lines, "=======", *hunk.new_lines]
            lines = [file.name, "```", "<<<<<<< SEARCH", *sides, ">>>>>>> REPLACE", "```"]
            blocks.append("\n".join(lines))
    change = "\n\n".join(blocks)
    replies = [message.get("content") for message in messages if message["role"] == "assistant"]
    is_repeated = sum(change in str(content) for content in replies) >= 2
    return "The repository is repaired." if is_repeated else change
