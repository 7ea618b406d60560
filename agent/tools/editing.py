"""Tools that change files. They preserve the encoding and the line ends of a file."""

import difflib
import io
import re
import tokenize
from dataclasses import dataclass
from itertools import pairwise

from pydantic import Field

from agent.tools.protection import confine_files, confine_for_writing
from agent.tools.tool import NOTHING, Arguments, Refused, Tool, ToolResult, ToolSettings
from agent.workspaces import Workspace

_BINARY_LOOK_BYTES = 8000  # where git looks for a zero byte


@dataclass(frozen=True)
class Text:
    """The content of a text file, with its original line ends."""

    content: str
    encoding: str = "utf-8"

    @property
    def is_crlf(self) -> bool:
        """True if every line ends in CR LF."""
        ends = self.content.count("\n")
        return ends > 0 and self.content.count("\r\n") == ends

    def encode(self, content: str) -> bytes:
        """Encode new content for the same file.

        Raises:
            Refused: the file's encoding lacks a character.
        """
        try:
            return content.encode(self.encoding)
        except UnicodeEncodeError as error:
            raise Refused(
                f"the file is in {self.encoding}, which cannot hold "
                f"{content[error.start : error.end]!r}; write it as an escape sequence"
            ) from error


def decode(content: bytes, path: str) -> Text:
    """Decode a file as UTF-8, else as a Python file declares, else as Latin-1.

    Latin-1 fits any bytes.

    Raises:
        Refused: it is a binary file.
    """
    if b"\0" in content[:_BINARY_LOOK_BYTES]:
        raise Refused(f"{path} is a binary file of {len(content)} bytes")
    try:
        declared = tokenize.detect_encoding(io.BytesIO(content).readline)[0]
    except SyntaxError:
        declared = "latin-1"
    for encoding in ("utf-8", declared):
        try:
            text = content.decode(encoding)
            if text.encode(encoding) == content:
                return Text(text, encoding)
        except (UnicodeError, LookupError):
            continue
    return Text(content.decode("latin-1"), "latin-1")


def with_crlf(content: str) -> str:
    """Return the same lines, each ending in CR LF."""
    return content.replace("\r\n", "\n").replace("\n", "\r\n")


_NEAREST = 3
_CUTOFF = 0.6
_LINES_COMPARED = 20_000
_PLACES_NAMED = 10


class Write(Arguments):
    """Create a file, or replace the whole of one."""

    path: str = Field(description="relative to the repository's root")
    content: str


class WriteNew(Arguments):
    """Create a file that does not exist yet."""

    path: str = Field(description="relative to the repository's root")
    content: str


class Edit(Arguments):
    """Replace a piece of a file that stands in it exactly once."""

    path: str = Field(description="relative to the repository's root")
    old: str = Field(min_length=1, description="as it stands in the file, without line numbers")
    new: str


class ApplyPatch(Arguments):
    """Apply a unified diff: all of it, or nothing where a part does not fit."""

    patch: str = Field(min_length=1, description="with `--- a/path` and `+++ b/path` headers")


async def write(workspace: Workspace, settings: ToolSettings, asked: Write) -> ToolResult:
    """Create a file, or replace one in its own encoding and with its own line ends."""
    file = await confine_for_writing(workspace, asked.path)
    try:
        before = decode(file.content or b"", file.path)
    except Refused:  # a binary file
        before = Text("")
    # A model does not see the line ends of what it read, but a program has them in its text.
    hides_ends = before.is_crlf and "\r" not in asked.content
    content = with_crlf(asked.content) if hides_ends else asked.content
    await _write(workspace, file.path, before.encode(content))
    return ToolResult(f"wrote {asked.path}")


async def write_new(workspace: Workspace, settings: ToolSettings, asked: WriteNew) -> ToolResult:
    """Create a file."""
    file = await confine_for_writing(workspace, asked.path)
    if file.content is not None:
        raise Refused(f"{asked.path} exists; only new files can be written")
    await _write(workspace, file.path, asked.content.encode())
    return ToolResult(f"wrote the new file {asked.path}")


async def edit(workspace: Workspace, settings: ToolSettings, asked: Edit) -> ToolResult:
    """Replace the only occurrence of the old text."""
    file = await confine_for_writing(workspace, asked.path)
    if file.content is None:
        raise Refused(f"there is no file {asked.path}; write creates one")
    text = decode(file.content, asked.path)
    edited = replace_once(text, asked.old, asked.new, asked.path)
    if edited == text.content:
        raise Refused("old and new are the same; nothing would change")
    await _write(workspace, file.path, text.encode(edited))
    return ToolResult(f"edited {asked.path}")


async def apply_patch(
    workspace: Workspace, settings: ToolSettings, asked: ApplyPatch
) -> ToolResult:
    """Apply a patch to the work tree."""
    patch = await _with_line_ends_of_files(workspace, asked.patch.rstrip("\n") + "\n")
    try:
        await workspace.apply(patch)
    except ValueError as error:
        raise Refused(
            f"the patch does not apply, and nothing was changed: {error}\n"
            "Read the lines it is about and make it fit them, or use edit."
        ) from error
    return ToolResult("the patch was applied")


def replace_once(text: Text, old: str, new: str, path: str) -> str:
    """Return the text with the only occurrence of `old` replaced, whatever its line ends are.

    Raises:
        Refused: `old` occurs more than once, or not at all.
    """
    pattern = r"(?:\r\n|(?<!\r)\n)".join(map(re.escape, old.replace("\r\n", "\n").split("\n")))
    starts = [match.start() for match in re.finditer(f"(?={pattern})", text.content)]
    if not starts:
        raise Refused(_not_found(text.content, old, path))
    if len(starts) > 1:
        places = [str(text.content.count("\n", 0, start) + 1) for start in starts]
        named = ", ".join(places[:_PLACES_NAMED]) + ", ..." * (len(places) > _PLACES_NAMED)
        raise Refused(
            f"old occurs {len(starts)} times in {path}, at lines {named}; "
            "give more of the lines around the one that is meant"
        )
    match = re.compile(pattern).match(text.content, starts[0])
    assert match is not None
    crlf = "\r\n" in match[0] if "\n" in match[0] else text.is_crlf
    hides_ends = "\r" not in old + new  # as in `write`
    replacement = with_crlf(new) if crlf and hides_ends else new
    return text.content[: match.start()] + replacement + text.content[match.end() :]


def _not_found(content: str, old: str, path: str) -> str:
    """Return a message with the lines that are most similar to the first line of `old`."""
    wanted = next((line.strip() for line in old.splitlines() if line.strip()), "")
    numbers: dict[str, list[int]] = {}
    for number, line in enumerate(content.splitlines()[:_LINES_COMPARED], 1):
        numbers.setdefault(line.strip(), []).append(number)
    near = difflib.get_close_matches(wanted, numbers, _NEAREST, _CUTOFF)
    if not near:
        return f"old does not occur in {path}, and no line is like {wanted!r}; read the file"
    lines = [f"{number}\t{line}" for line in near for number in numbers[line][:_NEAREST]]
    return "\n".join(
        [
            f"old does not occur in {path} as it was given; check every line of it, the space "
            "before it too. Lines most like its first one:",
            *lines,
        ]
    )


async def _write(workspace: Workspace, path: str, content: bytes) -> None:
    try:
        await workspace.write(path, content)
    except OSError as error:
        raise Refused(str(error)) from error


async def _with_line_ends_of_files(workspace: Workspace, patch: str) -> str:
    """Add CR LF to the patch's lines for files that use it, because models do not see line ends."""
    pairs = [*pairwise([*patch.split("\n"), ""])]
    headers = (_name_in(line) for line, following in pairs if _begins_file(line, following))
    names = list(dict.fromkeys(filter(None, headers)))
    files = await confine_files(workspace, names) if names else []
    are_crlf = {
        name: Text((file.content or b"").decode("latin-1")).is_crlf
        for name, file in zip(names, files, strict=True)
    }
    lines = []
    crlf = in_header = False
    for line, following in pairs:
        if _begins_file(line, following):
            crlf = are_crlf.get(_name_in(line), False)
            in_header = True
        elif in_header:
            in_header = False
        elif crlf and line.startswith((" ", "+", "-")) and not following.startswith("\\"):
            line = line.removesuffix("\r") + "\r"
        lines.append(line)
    return "\n".join(lines)


def _begins_file(line: str, following: str) -> bool:
    """Return True for the first header line of a file in a patch."""
    return line.startswith("--- ") and following.startswith("+++ ")


def _name_in(header: str) -> str:
    """Return the name after `a/`, or ''."""
    return header.removeprefix("--- ").split("\t")[0].strip().partition("/")[2]


EDITING = (
    Tool("write", Write, write, changes_files=True, value=NOTHING),
    Tool("write_new", WriteNew, write_new, changes_files=True, value=NOTHING),
    Tool("edit", Edit, edit, changes_files=True, value=NOTHING),
    Tool("apply_patch", ApplyPatch, apply_patch, changes_files=True, value=NOTHING),
)
