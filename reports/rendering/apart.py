"""Figures drawn by two processes of their own, while this one reads and counts.

Drawing takes as long as all other Python code of a report, and threads of one process would share
its lock.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from multiprocessing import get_context
from multiprocessing.connection import Connection

from reports.breakdowns import Breakdowns
from reports.rendering.drawing import draw_figure
from reports.rendering.drawn import SECTIONS, Figures, draw_all
from reports.types import Report

_PROGRAM = """
import gc, sys
gc.disable()  # it lives for a second
sys.path[:] = {path!r}
from reports.rendering import apart
apart.serve()
gc.freeze()
"""


class Apart:
    """A process that draws the figures of one report."""

    def __init__(self) -> None:
        """Start the process, which imports its libraries at once."""
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM.format(path=sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._has_drawn = False

    def begin(self, report: Report) -> None:
        """Begin to draw the figures of a report. It is called once."""
        there, self._process.stdin = self._process.stdin, None
        assert there is not None, "it is a pipe, and this is the first report"
        with suppress(BrokenPipeError), there:  # `figures` returns None then
            pickle.dump(_drawable(report), there)

    def figures(self) -> Figures | None:
        """Wait for the figures, and return them. Return None if the process failed."""
        there, back = self._process.stdin, self._process.stdout
        assert back is not None, "it is a pipe"
        if there:  # it was asked for nothing
            there.close()
        try:
            drawn: Figures = pickle.load(back)  # noqa: S301
        except (EOFError, pickle.UnpicklingError):
            return None
        self._has_drawn = True
        return drawn

    def stop(self) -> None:
        """End the process, whatever it does. One that has drawn ends by itself."""
        if not self._has_drawn:
            self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                pipe.close()


def serve() -> None:
    """Draw the figures of a pickled report from standard input to standard output."""
    # The first figure loads matplotlib and its fonts, while the other process reads.
    draw_figure("", "", "", "", 1.0, lambda axes: None)
    report = pickle.load(sys.stdin.buffer)  # noqa: S301 - from the process that started this one
    pickle.dump(_draw_in_two(report), sys.stdout.buffer)


def _draw_in_two(report: Report) -> Figures:
    """Draw every other section in a fork, which shares the loaded libraries."""
    context = get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    fork = context.Process(target=_send, args=(theirs, report))
    fork.start()
    theirs.close()
    drawn = {**draw_all(report, SECTIONS[::2]), **ours.recv()}
    fork.join()
    return drawn


def _send(there: Connection, report: Report) -> None:
    """Draw the other half. A fork whose reader was killed ends when it has drawn."""
    there.send(draw_all(report, SECTIONS[1::2]))


def _drawable(report: Report) -> Report:
    """Return the report without its longest parts that no figure shows."""
    spreads, costs = report.breakdowns.spreads, report.breakdowns.costs
    return replace(report, breakdowns=Breakdowns((), (), (), spreads, costs, (), ()))
