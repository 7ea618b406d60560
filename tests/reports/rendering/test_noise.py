"""What the report and `power` say about the sources of noise."""

from reports.build import build
from reports.questions.noise.section import TITLE
from reports.rendering import markdown, page
from tests.reports.lake_fixture import LakeBuilder


def fill(lake: LakeBuilder, *, gradings: int = 1) -> None:
    """Write four instances with two repeats: two differ always, one half of the time, one never."""
    ids = ["i1", "i2", "i3", "i4"]
    lake.declare(["plain", "careful"], ids, repeats=2)
    resolved = {("i1", 0), ("i1", 1), ("i2", 0), ("i2", 1), ("i3", 0)}
    for arm in ("plain", "careful"):
        for instance in ids:
            for repeat in (0, 1):
                attempt = lake.attempt(arm, instance, repeat=repeat)
                lake.predict(arm, instance, attempt, repeat=repeat)
                is_resolved = arm == "careful" and (instance, repeat) in resolved
                outcome = "resolved" if is_resolved else "unresolved"
                lake.evaluate(
                    arm, instance, attempt, outcome, repeat=repeat, gradings=gradings,
                    audit_reasons=["flaky: resolved in the first grading, unresolved in another"]
                    if gradings > 1 and is_resolved and instance == "i1"
                    else [],
                )  # fmt: skip


def test_the_variance_is_split_and_the_gains_are_said(lake: LakeBuilder) -> None:
    """The section has the parts, and what twice the instances or repeats would gain."""
    fill(lake)
    report = build(lake.root, "trial")
    section = report.section("noise")
    assert section is not None
    assert section.answer == (
        "Of the variance of the paired difference at one cell, 57.1 % is between instances and "
        "42.9 % is between runs, gradings included. With 4 instances and 2 repeats the standard "
        "error is 23.9 points; with twice the instances it would be 16.9, with twice the repeats "
        "22.2, and with any number of repeats at least 20.4."
    )
    assert section.brief == (section.answer,)
    assert section.advice[0].endswith(section.answer)
    assert TITLE in markdown.render(report)
    assert TITLE in page.render(report)


def test_instances_that_tell_arms_apart_are_proposed_with_the_bias(lake: LakeBuilder) -> None:
    """Instances that 30 to 70 % of the attempts resolved are a selection, with a warning."""
    fill(lake)
    section = build(lake.root, "trial").section("noise")
    assert section is not None
    line = section.advice[-1]
    assert line.startswith("2 instances of which 30 to 70 % of up to 4 attempts were resolved")
    assert "favours differences" in line
    assert line.endswith('select: {ids: ["i1", "i2"]}')
