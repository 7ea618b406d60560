"""What the report says about wrong verdicts."""

from reports.build import build
from reports.questions.gradings.section import TITLE
from reports.rendering import markdown, page
from reports.types import Report
from tests.reports.lake_fixture import LakeBuilder


def gradings_line(report: Report) -> str:
    """Return what the terminal says; empty if that is nothing."""
    section = report.section("gradings")
    return " ".join(section.brief) if section else ""


def test_the_wrong_verdicts_that_turn_a_result_are_counted(lake: LakeBuilder) -> None:
    """Eight instances against none are significant up to two wrong verdicts."""
    resolved, ids = {"plain": 0, "careful": 8}, [f"i{number}" for number in range(20)]
    lake.declare([*resolved], ids)
    lake.fill(resolved, ids)
    report = build(lake.root, "trial")
    assert gradings_line(report) == (
        "The test between careful and plain is no longer significant with 2 wrong verdicts of 40 "
        "(5.0 %), if all err in one direction. With 9 wrong verdicts of 40 (22.5 %), plain "
        "resolves more."
    )
    text = markdown.render(report)
    assert TITLE in text
    assert "no longer significant from a rate of 13.4 % on" in text
    assert TITLE in page.render(report)
