"""The writers of work trees and their files, as each branch has them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from agent.graph.scopes import list_around


@dataclass
class WorkTrees:
    """The last writers of the work trees and files of each branch."""

    _writers: dict[str, dict[str, str]] = field(default_factory=dict)
    """By tree, its last writer in each branch."""
    _files: dict[str, dict[str, str]] = field(default_factory=dict)
    """By branch, the last writer of each of its files."""
    _files_after: dict[str, dict[str, str]] = field(default_factory=dict)
    """By step that wrote a tree, the last writer of each file in it."""

    def find_writer(self, branch: str, tree: str) -> str | None:
        """Return the last writer of a tree: in the branch, around it, or else in any branch."""
        writers = self._writers.get(tree, {})
        around = (writers[outer] for outer in list_around(branch) if outer in writers)
        return next(around, next(reversed(writers.values()), None))

    def take(self, branch: str, tree: str) -> None:
        """Let a branch have the files of a tree, of whatever branch it is."""
        writer = self.find_writer(branch, tree)
        self._files[branch] = dict(self._files_after.get(writer or "", {}))

    def find_files(self, branch: str, began_at: str, paths: Sequence[str]) -> Iterator[str]:
        """Yield the files of a branch that these paths include. Its first tree is `began_at`."""
        if branch not in self._files:
            self.take(branch, began_at)
        for path in paths:
            inside = "" if path == "./" else path
            for name in self._files[branch]:
                if name == path or (path.endswith("/") and name.startswith(inside)):
                    yield name

    def get_writer(self, branch: str, path: str) -> str:
        """Return the last writer of a file that `find_files` yielded."""
        return self._files[branch][path]

    def write(self, branch: str, step: str, tree: str | None, paths: Sequence[str]) -> None:
        """Record the files that a step wrote in a branch, and its tree, if that changed."""
        files = self._files.setdefault(branch, {})
        files.update(dict.fromkeys(paths, step))
        if tree is not None:
            self._writers.setdefault(tree, {})[branch] = step
            self._files_after[step] = dict(files)
