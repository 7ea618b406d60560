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


def fill(lake: LakeBuilder, only_second: int, pairs: int = 20) -> None:
    """Write two arms of which the second alone resolves some instances, and both none else."""
    ids = [f"i{number}" for number in range(pairs)]
    lake.declare(["plain", "careful"], ids)
    for place, instance in enumerate(ids):
        lake.cell("plain", instance, "unresolved")
        lake.cell("careful", instance, "resolved" if place < only_second else "unresolved")


def test_the_wrong_verdicts_that_turn_a_result_are_counted(lake: LakeBuilder) -> None:
    """Eight instances against none are significant up to two wrong verdicts."""
    fill(lake, 8)
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
