"""Cells that run again within another one, to make what cannot be stored.

They run in the order in which they ran, each once, and leave the files that they write and the
output as those were.
"""

import builtins
import os
import sys


class Makers:
    """The cells whose variables cannot be stored, as of their last runs."""

    def __init__(self, known, run, files):
        """Run cells with `run`, and let the watch of files undo their changes."""
        self.known = {maker["cell"]: maker for maker in known}
        self.lost = {}
        self._run = run
        self._files = files
        self._ran = {}

    def run(self, number, heap):
        """Return the heap of a cell that has run for another one, or None for an unknown one.

        Raises:
            Lost: what it needs is gone.
        """
        if number in self.known and number not in self._ran:
            self._ran[number] = self._make(self.known[number], heap)
        return self._ran.get(number)

    def _make(self, known, heap):
        names, process = heap.namespace, os.getpid()
        number = known["cell"]
        inner = Heap(heap.folder, known["variables"], number, known["unstored"], self)
        inner = inner.with_classes_of(heap)
        before = dict(names)
        names.clear()
        names.update(__name__="__main__", __builtins__=builtins)
        names.heap, inner.namespace = inner, names
        try:
            with Silence(), self._files.undone():
                self._run(inner, known["code"], "<cell %d>" % number)
            if os.getpid() != process:  # a child that the cell forked
                os._exit(0)
            if inner.lost:
                self.lost[number] = sorted(set(inner.lost))
            if self.lost:
                raise Lost(number)
            inner.keep()
        finally:
            names.heap = heap
            names.clear()
            names.update(before)
        return inner


class Silence:
    """A block whose output is lost."""

    def __enter__(self):
        flush()
        self.kept = os.dup(1), os.dup(2)
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        os.close(null)

    def __exit__(self, *error):
        flush()
        for number, copy in enumerate(self.kept, 1):
            os.dup2(copy, number)
            os.close(copy)


def flush():
    """Write what was printed."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            pass
