"""Figures that another process draws are those that this one draws."""

import os
import signal

import pytest

from reports.build import build
from reports.rendering import page
from reports.rendering.apart import Apart
from reports.types import Report
from tests.reports.lake_fixture import LakeBuilder
from tests.reports.many_arms import fill


@pytest.fixture
def report(lake: LakeBuilder) -> Report:
    """Return a report with every figure of a page but those of calls."""
    fill(lake, 3, 12, priced=True)
    return build(lake.root, "trial")


def test_the_page_is_the_same(lake: LakeBuilder) -> None:
    """Figures of the early report make the same page as those of the whole one."""
    fill(lake, 3, 12, priced=True)
    drawing = Apart()
    try:
        report = build(lake.root, "trial", early=drawing.begin)
        figures = drawing.figures()
        assert figures is not None
        assert sum(map(len, figures.values())) >= 7
        assert page.render(report, lambda: figures) == page.render(report)
    finally:
        drawing.stop()


def test_without_the_process_nothing_is_drawn(report: Report) -> None:
    """A process that was killed, before or after it was asked, returns nothing and no error."""
    for is_asked_first in (False, True):
        drawing = Apart()
        os.kill(drawing._process.pid, signal.SIGKILL) if not is_asked_first else None
        drawing.begin(report)
        os.kill(drawing._process.pid, signal.SIGKILL)
        assert drawing.figures() is None
        drawing.stop()


def test_a_process_that_was_not_asked_ends() -> None:
    """A report that fails before there is anything to draw leaves no process."""
    drawing = Apart()
    drawing.stop()
    assert drawing._process.returncode is not None
