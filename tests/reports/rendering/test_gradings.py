"""What the report says about wrong verdicts."""

from pathlib import Path

from reports.build import build
from reports.questions.gradings.section import TITLE
from reports.rendering import markdown, page
from reports.types import Report
from tests.reports.lake_fixture import LakeBuilder

FLIPPED = "flaky: resolved in the first grading, unresolved in another"


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


def test_a_difference_within_chance_can_become_significant(lake: LakeBuilder) -> None:
    """Three instances against none become significant with two wrong verdicts."""
    fill(lake, 3)
    assert "wrong at random" not in markdown.render(build(lake.root, "trial"))
    assert "becomes significant with 2 wrong verdicts of 40 (5.0 %)" in gradings_line(
        build(lake.root, "trial")
    )


def test_too_few_instances_are_never_significant(lake: LakeBuilder) -> None:
    """With five instances, no verdicts make the exact test significant."""
    fill(lake, 3, pairs=5)
    assert gradings_line(build(lake.root, "trial")).startswith("No number of wrong verdicts")


def test_repeats_are_moved_instance_by_instance(lake: LakeBuilder) -> None:
    """With repeats, the number of wrong verdicts is one that is enough."""
    ids = [f"i{number}" for number in range(9)]
    lake.declare(["plain", "careful"], ids, repeats=2)
    for instance in ids:
        for repeat in (0, 1):
            lake.cell("plain", instance, "unresolved", repeat=repeat)
            lake.cell("careful", instance, "resolved", repeat=repeat)
    assert "with as few as" in gradings_line(build(lake.root, "trial"))


def test_verdicts_that_flip_are_listed(lake: LakeBuilder) -> None:
    """Of two patches graded twice, the one with another verdict is named."""
    lake.declare(["a"], ["i", "j", "k"])
    for instance, reasons in (("i", [FLIPPED]), ("j", [])):
        attempt = lake.attempt("a", instance)
        lake.predict("a", instance, attempt)
        lake.evaluate("a", instance, attempt, "resolved", gradings=2, audit_reasons=reasons)
    section = build(lake.root, "trial").section("gradings")
    assert section is not None
    assert section.answer == (
        "Patches graded more than once: 2. Of these, 1 (50.0 %, 95 % interval 9.5 % to 90.5 %) had "
        "another verdict."
    )
    assert section.tables[0].rows == (("a", "i", "1"),)


def test_without_a_comparison_and_second_gradings_nothing_is_said(tmp_path: Path) -> None:
    """One arm that was graded once, or two arms that resolved nothing, have no section."""
    lake = LakeBuilder(tmp_path)
    lake.declare(["a", "b"], ["i"])
    lake.cell("a", "i", "unresolved")
    report = build(tmp_path, "trial")
    assert report.section("gradings") is None
    assert gradings_line(report) == ""
    assert TITLE not in markdown.render(report) + page.render(report)
