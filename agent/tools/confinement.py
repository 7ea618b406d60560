"""Confinement of tools to the repository, with all links followed."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from agent.tools.tool import Refused, is_plain
from agent.workspaces import Found, Workspace


@dataclass(frozen=True)
class ConfinedFile:
    """The target of a path inside the repository, and its content."""

    path: str
    """The target, relative to the repository's root."""
    found: Found

    @property
    def content(self) -> bytes | None:
        """The content of the file, or None if there is no file.

        Raises:
            Refused: the file cannot be read.
        """
        if self.found.problem:
            raise Refused(self.found.problem)
        return self.found.content


async def confined(workspace: Workspace, path: str) -> str:
    """Return the target of a path with all links followed, relative to the repository's root.

    Raises:
        Refused: the path is empty, or its target is outside the repository.
    """
    [real] = await confined_all(workspace, [path])
    return real


async def confined_all(workspace: Workspace, paths: Sequence[str]) -> list[str]:
    """Return the targets of several paths, as `confined` does.

    Raises:
        Refused: one of them is empty, or its target is outside the repository.
    """
    try:
        found = await workspace.resolve_all(paths)
    except OSError as error:
        raise Refused(str(error)) from error
    return [_inside(workspace, path, real) for path, real in zip(paths, found, strict=True)]


async def confined_files(workspace: Workspace, paths: Sequence[str]) -> list[ConfinedFile]:
    """Return the targets of paths inside the repository, and their contents.

    Raises:
        Refused: one of them is empty, or its target is outside the repository.
    """
    try:
        found = await workspace.look_up(paths)
    except OSError as error:
        raise Refused(str(error)) from error
    return [
        ConfinedFile(_inside(workspace, path, each.path), each)
        for path, each in zip(paths, found, strict=True)
    ]


async def confined_file(workspace: Workspace, path: str) -> ConfinedFile:
    """Return the target of one path, as `confined_files` does."""
    [file] = await confined_files(workspace, [path])
    return file


def _inside(workspace: Workspace, path: str, real: str | None) -> str:
    if real is None:
        raise Refused(
            f"{path} is outside the repository ({workspace.root}); "
            "only what is inside it can be read or changed"
        )
    if not is_plain(real):
        raise Refused(f"{path} leads to a file whose name is not UTF-8")
    return real


async def confined_for_writing(workspace: Workspace, path: str) -> ConfinedFile:
    """Return the target as `confined_file` does, for a file that is going to be written.

    Raises:
        Refused: also for the root itself and for git's own files.
    """
    file = await confined_file(workspace, path)
    if file.path == ".":
        raise Refused(f"{path} is the repository's root, which is a folder")
    if ".git" in PurePosixPath(file.path).parts:
        raise Refused(f"{path} belongs to git; files in .git cannot be written")
    return file
