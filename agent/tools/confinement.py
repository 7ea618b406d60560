"""Confinement of tools to the repository, with all links followed."""

from collections.abc import Sequence
from pathlib import PurePosixPath

from agent.tools.tool import Refused, is_plain
from agent.workspaces import Workspace


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


def _inside(workspace: Workspace, path: str, real: str | None) -> str:
    if real is None:
        raise Refused(
            f"{path} is outside the repository ({workspace.root}); "
            "only what is inside it can be read or changed"
        )
    if not is_plain(real):
        raise Refused(f"{path} leads to a file whose name is not UTF-8")
    return real


async def confined_for_writing(workspace: Workspace, path: str) -> str:
    """Return the target as `confined` does, for a file that is going to be written.

    Raises:
        Refused: also for the root itself and for git's own files.
    """
    real = await confined(workspace, path)
    if real == ".":
        raise Refused(f"{path} is the repository's root, which is a folder")
    if ".git" in PurePosixPath(real).parts:
        raise Refused(f"{path} belongs to git; files in .git cannot be written")
    return real
