"""The text files of a repository, and the indexes of the last few that were asked about.

Two commands in a workspace read the files. The first lists the files that git tracks or would
track, with their sizes and stamps. The second fetches, as one archive, the files that are wanted
and not already known. A second reading after an edit therefore fetches only the changed files.

Attempts at one task start from the same files, and most steps of an attempt change few of them or
none. So a repository is read and indexed once in a process, as long as it is among the last few
that were used.
"""

import asyncio
import base64
import io
import re
import tarfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from agent.errors import WorkspaceError
from agent.index.symbols import SymbolIndex
from agent.workspaces import Workspace

MAX_FILE_BYTES = 2**20
MAX_TOTAL_BYTES = 48 * 2**20

_LISTING_BYTES = 128 * 2**20
_TIMEOUT_S = 300.0
_BINARY_LOOK_BYTES = 8000  # where git looks for a zero byte
_ARCHIVE_OVERHEAD_BYTES = 4096  # of one file: its header, padding, and a long name
_ARCHIVE_END_BYTES = 64 * 2**10
_TICKS_NS = 20_000_000  # more than the kernel's clock tick
LINE_END = re.compile(r"\r\n|\r|\n")

# Follows any text that a profile prints.
_MARK = "=== sources ==="

# Lists regular files that `find` sees without following links and that git does not ignore. The
# last record is the current time.
_LIST = f"""
printf '\\n%s\\n' '{_MARK}'
export LC_ALL=C GIT_OPTIONAL_LOCKS=0
set -o pipefail
{{
  git -c safe.directory='*' ls-files -zco --exclude-standard | sort -zu |
    comm -z -12 - <(find . -path ./.git -prune -o -type f -printf '%P\\0' | sort -z) |
    xargs -0 -r stat --printf '%s %.9Z %i %n\\0' -- &&
  printf '0 %s 0 .' "$(date +%s.%N)"
}} 2>/dev/null | base64 -w 0
"""

# A file that cannot be read is not in the archive. tar reports it by its exit status.
_FETCH = f"""
printf '\\n%s\\n' '{_MARK}'
printf %s {{paths}} | base64 -d |
  tar -c --format=gnu --hard-dereference --no-recursion --null -T - 2>/dev/null | base64 -w 0
"""


@dataclass(frozen=True)
class Sources:
    """The files of a work tree at one moment. Paths are relative to its root."""

    texts: Mapping[str, str]
    """Content by path, with original line ends. Bytes that are not UTF-8 are replaced."""
    stamps: Mapping[str, str]
    """Size, time of change and inode of every file that was read, binary ones too.

    Equal stamps mean equal content. A file that changed a moment ago has an empty stamp, which
    means nothing.
    """


@dataclass(frozen=True)
class _Listed:
    """An existing file."""

    path: str
    size: int
    stamp: str


async def read_sources(
    workspace: Workspace,
    *,
    known: Sequence[Sources] = (),
    max_file_bytes: int = MAX_FILE_BYTES,
    max_total_bytes: int = MAX_TOTAL_BYTES,
) -> Sources:
    """Return all text files that git tracks or does not ignore, as they are in the work tree.

    Symbolic links are not followed, repositories inside this one are not entered, and files whose
    name is not UTF-8 are left out. Python files use up the total first, and small files before
    large ones. With `known`, earlier readings of this or other workspaces, only files with other
    stamps are fetched.

    Raises:
        WorkspaceError: git lists no files (a retry does not help), or the shell is gone.
    """
    files = _parse_listing(await _run(workspace, _LIST, keep_bytes=_LISTING_BYTES))
    room, paths = max_total_bytes, set()
    for file in sorted(files, key=lambda file: (not file.path.endswith(".py"), file.size)):
        if file.size <= min(max_file_bytes, room):
            room -= file.size
            paths.add(file.path)
    wanted = [file for file in files if file.path in paths]
    contents: dict[str, str | None] = {}
    for reading in known:
        contents = {
            file.path: reading.texts.get(file.path)  # None for a binary one
            for file in wanted
            if file.stamp and reading.stamps.get(file.path) == file.stamp
        } | contents
    contents |= await _fetch(workspace, [file for file in wanted if file.path not in contents])
    read = [file for file in wanted if file.path in contents]
    texts = {file.path: text for file in read if (text := contents[file.path]) is not None}
    return Sources(texts, {file.path: file.stamp for file in read})


def lines(text: str) -> list[str]:
    """Return the lines of a text without their ends, numbered as by Python.

    A form feed or another separator of Unicode does not end a line.
    """
    rows = LINE_END.split(text) if "\r" in text else text.split("\n")  # much faster
    return rows if rows[-1] else rows[:-1]


def _parse_listing(listing: bytes) -> list[_Listed]:
    """Return the files, sorted by path."""
    *records, clock = listing.split(b"\0")
    now = _nanoseconds(clock.split(b" ")[1])
    files = []
    for record in records:
        size, changed, inode, name = record.split(b" ", 3)
        settled = now - _nanoseconds(changed) > _TICKS_NS
        try:
            path = name.decode()
        except UnicodeDecodeError:
            continue
        stamp = b" ".join((size, changed, inode)).decode() if settled else ""
        files.append(_Listed(path, int(size), stamp))
    return sorted(files, key=lambda file: file.path)


def _nanoseconds(seconds: bytes) -> int:
    whole, _, fraction = seconds.partition(b".")
    return int(whole) * 10**9 + int(fraction)


async def _fetch(workspace: Workspace, files: Sequence[_Listed]) -> dict[str, str | None]:
    """Return the text of each readable file, or None for a binary one."""
    if not files:
        return {}
    # The prefix keeps tar from mistaking a name for an option.
    names = b"".join(f"./{file.path}\0".encode() for file in files)
    command = _FETCH.format(paths=base64.b64encode(names).decode())
    room = sum(file.size + len(file.path.encode()) + _ARCHIVE_OVERHEAD_BYTES for file in files)
    archive = await _run(workspace, command, keep_bytes=2 * room + _ARCHIVE_END_BYTES)

    def unpack() -> dict[str, str | None]:
        texts: dict[str, str | None] = {}
        with tarfile.open(fileobj=io.BytesIO(archive), encoding="utf-8") as members:
            for member in members:
                if (file := members.extractfile(member)) is not None:
                    content = file.read()
                    is_binary = b"\0" in content[:_BINARY_LOOK_BYTES]
                    text = None if is_binary else content.decode(errors="replace")
                    texts[member.name.removeprefix("./")] = text
        return texts

    return await asyncio.to_thread(unpack)


async def _run(workspace: Workspace, command: str, *, keep_bytes: int) -> bytes:
    """Return the decoded base64 output of a command after the mark."""
    done = await workspace.run(command, timeout_s=_TIMEOUT_S, max_output_bytes=keep_bytes)
    if done.exit_code or done.truncated:
        reason = "there are too many" if done.truncated else f"exit {done.exit_code}"
        raise WorkspaceError(
            f"cannot list the files of {workspace.root} with git, find, stat and tar: {reason}",
            retryable=done.timed_out,
        )
    return base64.b64decode(done.output.rpartition(_MARK)[2])


T = TypeVar("T")

_MOST = 3


@dataclass(frozen=True)
class Indexed:
    """One state of a repository with its symbols."""

    sources: Sources
    symbols: SymbolIndex

    @property
    def texts(self) -> Mapping[str, str]:
        """The files by their paths."""
        return self.sources.texts


_recent: list[Indexed] = []
"""The latest first. Replaced as a whole, so that readers need no lock."""

_one_at_a_time = threading.Lock()
_one_question = threading.Lock()


async def query(workspace: Workspace, question: Callable[[Indexed], T]) -> T:
    """Return what a function returns for the index of a work tree.

    It is called in a thread, because it may have many files parsed, and one call at a time.

    Raises:
        WorkspaceError: the files cannot be listed, or the shell is gone.
    """
    indexed = await read_index(workspace)

    def answer() -> T:
        with _one_question:
            return question(indexed)

    return await asyncio.to_thread(answer)


async def read_index(workspace: Workspace) -> Indexed:
    """Return the index of a work tree.

    Raises:
        WorkspaceError: the files cannot be listed, or the shell is gone.
    """
    sources = await read_sources(workspace, known=[state.sources for state in _recent])

    def index() -> Indexed:
        global _recent
        with _one_at_a_time:
            # Unchanged texts are the same objects, so this compares only references.
            same = next((state for state in _recent if state.texts == sources.texts), None)
            symbols = same.symbols if same else SymbolIndex(sources.texts)
            latest = Indexed(sources, symbols)
            _recent = [latest, *(state for state in _recent if state is not same)][:_MOST]
        return latest

    return await asyncio.to_thread(index)
