"""The changes of a patch in a work tree, read from the tree and never from the patch.

Git and GNU patch read a patch in other ways than any third program. So the tree is read before and
after the official commands apply it, by a separate git folder that has every file.
"""

import base64
import shlex
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path, PurePosixPath

from eval.official_shell import OfficialShell
from eval.types import Applied, FileChange

_SCRIPT = Path(__file__).with_suffix(".sh").read_text(encoding="utf-8")
_TIMEOUT_S = 600.0
_MAX_BYTES = 32 * 1024 * 1024
_TOO_LARGE = 3
_AT_ONCE = 100

_ABSENT, _LINK = "000000", "120000"
_MODULES = (".py", ".pyc", ".so", ".pyd")
_NOT_IMPORTED = frozenset({"test"})
"""A module of the standard library that only Python's own tests import. Many people call a script
`test.py`."""


class _UnreadableError(Exception):
    """The tree cannot be read. The message gives the reason."""


class AppliedTree:
    """Reads the work tree of a grading: `start` at first, `reset` after each reset, `read` at last.

    All three raise `TimeoutError` if that takes too long.
    """

    def __init__(self, official: OfficialShell) -> None:
        self._official = official
        self._problem = ""

    async def start(self) -> None:
        """Read the tree at the opening."""
        with self._noting_problems():
            await self._call('begin && cp -- "$scratch/opened" "$scratch/before"')

    async def reset(self) -> None:
        """Read the tree again: what differs from the opening now is not part of the patch."""
        with self._noting_problems():
            if not self._problem:
                await self._call("save before")

    async def read(self) -> Applied:
        """Return what differs from the opening and from the last reset, or a problem."""
        with self._noting_problems():
            if not self._problem:
                return await self._read()
        return Applied(problem=self._problem)

    @contextmanager
    def _noting_problems(self) -> Iterator[None]:
        try:
            yield
        except _UnreadableError as error:
            self._problem = str(error)

    async def _read(self) -> Applied:
        opened, before, git_lines, copied, contents = (
            base64.b64decode(line) for line in await self._call("print_changes")
        )
        blobs: dict[str, bytes] = {}
        stream = BytesIO(contents)
        while header := stream.readline().split():
            blobs[header[0].decode()] = stream.read(int(header[2]))
            stream.read(1)
        since_reset, copies = {path for path, _ in _entries(before)}, set(copied.decode().split())
        files = tuple(
            FileChange(
                path=path,
                before=None if mode_before == _ABSENT else blobs[id_before],
                now=None if mode == _ABSENT else blobs[id_],
                is_link=mode == _LINK,
                is_copy=id_ in copies,
            )
            for path, (mode_before, mode, id_before, id_, _) in _entries(opened)
            if path in since_reset
        )
        # Lines of the form `HASH  ./PATH`, which `comm` may indent.
        of_git = {_text(line.rpartition(b"  ./")[2]) for line in git_lines.split(b"\0") if line}
        return Applied(files, tuple(sorted(of_git)), await self._shadows(files))

    async def _shadows(self, files: Iterable[FileChange]) -> tuple[str, ...]:
        """Return the new files that Python may import in place of an installed module."""
        modules = list(_new_modules(files))
        folders = await self._among("print_searched", {folder for folder, _, _ in modules})
        names = {name for folder, name, _ in modules if folder in folders}
        unimported = {name for name in names if not name.isidentifier()} | _NOT_IMPORTED
        taken = names & sys.stdlib_module_names
        taken |= await self._among("print_installed", names - taken - unimported)
        taken -= unimported
        return tuple(path for folder, name, path in modules if folder in folders and name in taken)

    async def _among(self, function: str, arguments: set[str]) -> set[str]:
        """Return the arguments whose numbers a function of the script prints."""
        result, ordered = set[str](), sorted(arguments)
        for first in range(0, len(ordered), _AT_ONCE):
            part = ordered[first : first + _AT_ONCE]
            numbers = await self._call(shlex.join([function, *part]))
            result.update(part[int(number)] for number in numbers)
        return result

    async def _call(self, command: str) -> list[str]:
        """Call a function of the script. Return the lines that it prints."""
        official = self._official
        variables = {
            "root": official.root,
            "scratch": official.tree_folder,
            "places": official.installed_below,
            "most": str(_MAX_BYTES),
        }
        done, lines = await official.call(
            _SCRIPT, command, variables, timeout_s=_TIMEOUT_S, max_output_bytes=2 * _MAX_BYTES
        )
        if done.timed_out:
            raise TimeoutError
        if done.exit_code == _TOO_LARGE:
            raise _UnreadableError(f"the patch changes files of more than {_MAX_BYTES >> 20} MiB")
        if done.exit_code or done.truncated:
            raise _UnreadableError(f"the work tree cannot be read: {done.output.strip()[-200:]}")
        return lines or []


def _entries(raw: bytes) -> Iterator[tuple[str, list[str]]]:
    """Yield the path, modes and ids of each change in git's raw form."""
    fields = raw.split(b"\0")
    for entry, path in zip(fields[0::2], fields[1::2], strict=False):
        yield _text(path), entry.decode().removeprefix(":").split(" ")


def _new_modules(files: Iterable[FileChange]) -> Iterator[tuple[str, str, str]]:
    """Yield folder, name and path of each new module or package, unless it replaces one."""
    changes = list(files)
    removed = {change.path for change in changes if change.now is None}
    for change in changes:
        if change.before is not None or change.now is None:
            continue
        path = PurePosixPath(change.path)
        name = path.name.partition(".")[0]
        if name == "__init__":
            path, name = path.parent, path.parent.name
        elif not (change.is_link or path.name.endswith(_MODULES)):
            continue
        siblings = (f"{name}.py", f"{name}/__init__.py")
        if name and not any(str(path.parent / sibling) in removed for sibling in siblings):
            yield str(path.parent), name, change.path


def _text(path: bytes) -> str:
    return path.decode("utf-8", "backslashreplace")
