"""Confinement of tools to the repository, with all links followed, and protection of its tests.

After every tool that may have changed files, the files that decide whether the task is solved are
compared with the base commit and restored, whatever was done to git. In files that contain other
settings too, such as `pyproject.toml`, only the settings of test runners count. New modules that
Python could import in place of pytest or of the standard library are removed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from agent.errors import WorkspaceError
from agent.runner_settings import differ, has_settings, is_test_support, shadows_a_module
from agent.testfiles import BY_CONVENTION, ROOT_FILES, TestFiles, read_test_files
from agent.tools.tool import Refused, is_plain
from agent.workspaces import Change, Found, Workspace


@dataclass(frozen=True)
class ConfinedFile:
    """The target of a path inside the repository, and its content."""

    path: str
    """The target, relative to the repository's root."""
    target: Found

    @property
    def content(self) -> bytes | None:
        """The content of the file, or None without a file.

        Raises:
            Refused: the file cannot be read.
        """
        if self.target.problem:
            raise Refused(self.target.problem)
        return self.target.content


async def confine(workspace: Workspace, path: str) -> str:
    """Return the target of a path with all links followed, relative to the repository's root.

    Raises:
        Refused: the path is empty, or its target is outside the repository.
    """
    [real] = await confine_all(workspace, [path])
    return real


async def confine_all(workspace: Workspace, paths: Sequence[str]) -> list[str]:
    """Return the targets of several paths, as `confine` does.

    Raises:
        Refused: one of them is empty, or its target is outside the repository.
    """
    try:
        targets = await workspace.resolve(paths)
    except OSError as error:
        raise Refused(str(error)) from error
    return [_inside(workspace, path, real) for path, real in zip(paths, targets, strict=True)]


async def confine_files(workspace: Workspace, paths: Sequence[str]) -> list[ConfinedFile]:
    """Return the targets of paths inside the repository, and their contents.

    Raises:
        Refused: one of them is empty, or its target is outside the repository.
    """
    try:
        targets = await workspace.look_up(paths)
    except OSError as error:
        raise Refused(str(error)) from error
    return [
        ConfinedFile(_inside(workspace, path, target.path), target)
        for path, target in zip(paths, targets, strict=True)
    ]


async def confine_file(workspace: Workspace, path: str) -> ConfinedFile:
    """Return the target of one path, as `confine_files` does."""
    [file] = await confine_files(workspace, [path])
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


async def confine_for_writing(workspace: Workspace, path: str) -> ConfinedFile:
    """Return the target as `confine_file` does, for a file that is going to be written.

    Raises:
        Refused: also for the root itself and for git's own files.
    """
    file = await confine_file(workspace, path)
    if file.path == ".":
        raise Refused(f"{path} is the repository's root, which is a folder")
    if ".git" in PurePosixPath(file.path).parts:
        raise Refused(f"{path} belongs to git; files in .git cannot be written")
    return file


@dataclass(frozen=True)
class Protection:
    """Protected files and their exceptions."""

    allowed: Mapping[str, bytes] = field(default_factory=dict)
    """Files that must exist with exactly this content: the anchor test."""
    new_tests: bool = False
    """True if test files may be added, as by the writer of the anchor test.

    Test configuration may not be added.
    """
    is_on: bool = True
    """False protects only the `allowed` files."""

    async def enforce(self, workspace: Workspace) -> list[str]:
        """Restore changed protected files. Return their paths, for the model.

        Compiled Python files of protected files are removed too, because Python would use them
        instead. Their paths are not returned.

        Raises:
            Destroyed: the repository is gone.
            WorkspaceError: the shell is gone.
        """
        undone: list[str] = []
        if self.is_on:
            changes = await workspace.changes()
            owns = await _find_owner(workspace, [_source(change.path) for change in changes])
            undone = [c.path for c in changes if await self._forbids(workspace, c, owns)]
        if undone:
            await workspace.put_back(undone)
        restored = {path for path in undone if not path.endswith(".pyc")}
        for path, content in self.allowed.items():
            if not await workspace.holds(path, content):
                await workspace.put_back([path])
                try:
                    await workspace.write(path, content)
                except OSError as error:
                    reason = f"a protected file cannot be written: {error}"
                    raise WorkspaceError(reason) from error
                restored.add(path)
        return sorted(path.encode(errors="replace").decode() for path in restored)

    async def _forbids(
        self, workspace: Workspace, change: Change, owns: Callable[[str], bool]
    ) -> bool:
        path = _source(change.path)
        if change.path in self.allowed:
            return False
        if has_settings(path) and not owns(path):
            return change.status == "typechange" or await _settings_differ(workspace, path)
        if is_test_support(path) or (change.status == "added" and shadows_a_module(path)):
            return True
        is_of_tests = owns(path) or owns(f"{path}/any")  # the path of a test folder, too
        return is_of_tests and not (self.new_tests and change.status == "added")


def explain(put_back: Sequence[str]) -> str:
    """Return the message to the model about protected files that were restored."""
    return (
        "Test files, conftest files and the configuration of test runners are kept as they are "
        "in the base commit, and no new file may take the place of pytest or of a module of the "
        "standard library, so changes to these were undone: "
        f"{', '.join(put_back)}. Solve the task in the code itself; tests that are added or "
        "changed do not count."
    )


def _source(path: str) -> str:
    """Return the source file of a compiled file."""
    pure = PurePosixPath(path)
    if pure.suffix != ".pyc":
        return path
    folder = pure.parent.parent if pure.parent.name == "__pycache__" else pure.parent
    return str(folder / f"{pure.name.partition('.')[0]}.py")


_stated: dict[str, TestFiles] = {}


async def _find_owner(workspace: Workspace, changed: Sequence[str]) -> Callable[[str], bool]:
    """Return the rules for files of tests, as the root of the base tree states them.

    That is read once for equal trees, and only if a file changed that convention takes for none.
    """
    if all(map(BY_CONVENTION.owns, changed)):
        return BY_CONVENTION.owns
    if workspace.opening not in _stated:
        contents = await workspace.originals(ROOT_FILES)
        texts = {name: content.decode("utf-8", "replace") for name, content in contents.items()}
        _stated[workspace.opening] = read_test_files(texts, texts.__getitem__)
    stated = _stated[workspace.opening]
    return lambda path: stated.owns(path) or BY_CONVENTION.owns(path)


async def _settings_differ(workspace: Workspace, path: str) -> bool:
    """Return True if the test runners' settings in a file changed, or it cannot be read."""
    before = (await workspace.originals([path])).get(path, b"")
    try:
        now = await workspace.read(path)
    except FileNotFoundError:
        now = b""
    except OSError:
        return True
    return differ(path, before, now)
