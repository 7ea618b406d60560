"""The files of the repository that a cell reads and writes, seen by an audit hook."""

import contextlib
import hashlib
import os
import sys
import threading

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
PROGRAMS = frozenset(
    ["subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "pty.spawn"]
)


def file_digest(path):
    """Return a short digest of a file's content, or None if it cannot be read."""
    try:
        with open(path, "rb") as stream:
            return hashlib.sha256(stream.read()).hexdigest()[:16]
    except OSError:
        return None


def put_back(path, content):
    """Give a file the content that it had; None if there was none."""
    try:
        if content is None:
            os.remove(path)
            return
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o666)
        try:
            os.ftruncate(descriptor, 0)
            while content:
                content = content[os.write(descriptor, content) :]
        finally:
            os.close(descriptor)
    except OSError:  # its folder is gone
        pass


class WatchedFiles:
    """The files under a root that were opened since the start of the watch."""

    def __init__(self, root):
        self.root = os.path.join(os.path.realpath(root), "")
        self.read = {}
        self.written = set()
        self.starts_programs = False
        self._looking = None
        self._before = None

    def watch(self):
        """Begin to watch. It cannot be ended."""
        sys.addaudithook(self._saw)

    def _saw(self, event, arguments):
        if self._looking == threading.get_ident():
            return
        if event == "open":
            self._record_open(*arguments)
        elif event in ("os.remove", "os.rename", "os.truncate"):
            for path in arguments[:2]:
                self._record_change(path)
        elif event in PROGRAMS:
            self.starts_programs = True

    @contextlib.contextmanager
    def undone(self):
        """Note nothing that happens in a block, and put the files back that it writes.

        The files stay the same ones: a handle that is open still works on its file.
        """
        outer, noted = self._before, (dict(self.read), set(self.written), self.starts_programs)
        self._before = {}
        try:
            yield
        finally:
            self._looking = threading.get_ident()
            try:
                for inside, content in self._before.items():
                    put_back(os.path.join(self.root, inside), content)
            finally:
                self._looking = None
            self._before = outer
            self.read, self.written, self.starts_programs = noted

    def _record_open(self, path, mode, flags):
        inside = self._inside(path)
        if inside is None:
            return
        writes = isinstance(flags, int) and flags & WRITING
        if writes:
            self._keep(inside)
        reads = not writes or (flags & os.O_RDWR and not flags & os.O_TRUNC)
        if reads:
            self.reads(inside)
        if writes:
            self.written.add(inside)

    def _record_change(self, path):
        inside = self._inside(path)
        if inside is not None:
            self._keep(inside)
            self.written.add(inside)

    def _keep(self, inside):
        """Keep the content of a file that is about to change, if that will be undone."""
        if self._before is None or inside in self._before:
            return
        self._looking = threading.get_ident()
        try:
            with open(os.path.join(self.root, inside), "rb") as stream:
                self._before[inside] = stream.read()
        except FileNotFoundError:
            self._before[inside] = None
        except OSError:  # no file
            pass
        finally:
            self._looking = None

    def _inside(self, path):
        """Return a path relative to the root, or None for a file that is none of the sources."""
        try:
            path = os.path.realpath(os.fsdecode(path))
        except (TypeError, ValueError, OSError):  # a descriptor
            return None
        if not path.startswith(self.root) or path.endswith((".pyc", ".pyo")):
            return None
        inside = path[len(self.root) :]
        other = inside.startswith((".git" + os.sep, "<")) or ".pyc." in inside
        is_text = inside.encode(errors="ignore").decode() == inside
        return inside if is_text and not other else None

    def reads(self, inside):
        """Note a file that is read, as it was before the cell changed it."""
        if inside in self.read or inside in self.written:
            return
        path = os.path.join(self.root, inside)
        if os.path.exists(path) and not os.path.isfile(path):
            return
        self._looking = threading.get_ident()
        try:
            self.read[inside] = file_digest(path)
        finally:
            self._looking = None

    def add_modules(self):
        """Note the sources of the repository's modules that were imported."""
        for module in list(sys.modules.values()):
            source = getattr(module, "__file__", None)
            if isinstance(source, str):
                inside = self._inside(source)
                if inside is not None:
                    self.reads(inside)

    def digests_written(self):
        """Return the digests of the files that were written, by path; None for a removed one."""
        return {
            inside: file_digest(os.path.join(self.root, inside)) for inside in sorted(self.written)
        }
