"""Tables by order and of budget stops, on the page and in Markdown."""

from pathlib import Path

from reports.build import build
from reports.rendering import markdown, page
from tests.reports.lake_fixture import LakeBuilder


def test_positions_and_stops_are_shown(tmp_path: Path) -> None:
    """The report shows the results of each arm by position, and its rate without budget stops."""
    lake = LakeBuilder(tmp_path)
    lake.declare(["a"], ["i", "j", "k", "l"])
    lake.cell("a", "i", order_in_instance=0)
    lake.cell("a", "j", order_in_instance=0)
    lake.cell("a", "k", "unresolved", order_in_instance=1)
    lake.attempt("a", "l", outcome="budget_stop", order_in_instance=1)
    report = build(tmp_path, "trial")
    text, html = markdown.render(report), page.render(report)
    assert "| a | 1 | 2 | 2 | 100.0 % | $0.500 |" in text
    assert "| a | 2 | 2 | 0 | 0.0 % | $0.500 |" in text
    assert "| a | 1 of 4 | 50.0 % | 66.7 % |" in text
    for title in ("Results by order of the arms", "Results without budget stops"):
        assert title in text
        assert title in html


def test_without_positions_and_stops_nothing_is_shown(tmp_path: Path) -> None:
    """A report without known positions and budget stops has neither table."""
    lake = LakeBuilder(tmp_path)
    lake.declare(["a"], ["i"])
    lake.cell("a", "i")
    report = build(tmp_path, "trial")
    assert (report.strata, report.stops) == ((), ())
    for text in (markdown.render(report), page.render(report)):
        assert "Results by order" not in text
        assert "budget stops" not in text
