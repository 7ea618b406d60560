"""Small git repositories, created once per process and copied for each test."""

import atexit
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

IDENTITY = ["-c", "user.name=t", "-c", "user.email=t@example.invalid"]

Prepare = Callable[[Path], None]
"""Creates a repository at a path, which may be an empty folder."""


def by_script(script: str) -> Prepare:
    """Return a function that creates the repository of a bash script."""
    return lambda path: _copy(_made_by_script(script), path)


def with_files(files: Mapping[str, str]) -> Prepare:
    """Return a function that creates a repository with these files as its only commit."""
    return lambda path: _copy(_made_with_files(tuple(files.items())), path)


@cache
def _made_by_script(script: str) -> Path:
    folder = _new_folder()
    subprocess.run(["bash", "-c", script], cwd=folder, check=True)
    return folder


@cache
def _made_with_files(files: tuple[tuple[str, str], ...]) -> Path:
    folder = _new_folder()
    for name, content in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    for command in (["init", "-q"], ["add", "."], [*IDENTITY, "commit", "-qm", "base"]):
        subprocess.run(["git", *command], cwd=folder, check=True)
    return folder


_TEMPORARY = tempfile.gettempdir()
"""The folder for temporary files before a test has set another one."""


@cache
def _made() -> Path:
    """Return the folder of all repositories of this process."""
    made = Path(tempfile.mkdtemp(prefix="made-once-", dir=_TEMPORARY))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def _new_folder() -> Path:
    folder = Path(tempfile.mkdtemp(dir=_made())) / "repo"
    folder.mkdir()
    return folder


def _copy(folder: Path, path: Path) -> None:
    """Copy a folder with its hard links and times, so that git does not read every file again."""
    path.mkdir(exist_ok=True)
    subprocess.run(["cp", "-a", f"{folder}/.", str(path)], check=True)
