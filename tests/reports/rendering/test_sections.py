"""The sections on instances and on work, in words and tables."""

import pytest

from reports.build import build
from reports.rendering import markdown, page
from reports.rendering.sections import Section, Table
from reports.types import Report
from tests.reports.lake_fixture import LakeBuilder
from tests.reports.many_arms import fill
from tests.reports.rendering.test_page import outline
from tests.reports.shown import section as shown

pytestmark = pytest.mark.sampled(3)


@pytest.fixture
def report(lake: LakeBuilder) -> Report:
    """Return a report of two arms with repeats, roles, tools and two repositories."""
    ids = ["x__y-1", "x__y-2", "z__z-3"]
    lake.declare(["plain", "phased"], ids, repeats=2)
    for arm, usd in (("plain", 1.0), ("phased", 2.0)):
        for instance in ids:
            for repeat in (0, 1):
                resolved = instance == "x__y-1" or (arm == "phased" and repeat == 0)
                attempt = lake.attempt(
                    arm, instance, repeat=repeat, cost_usd=usd, model_calls=2,
                    repo=instance.rpartition("-")[0].replace("__", "/"),
                    difficulty="easy" if instance == "x__y-1" else "hard",
                )  # fmt: skip
                lake.predict(arm, instance, attempt, repeat=repeat)
                outcome = "resolved" if resolved else "unresolved"
                lake.evaluate(arm, instance, attempt, outcome, repeat=repeat)
                lake.steps(
                    arm, instance, attempt, {}, {"kind": "action", "request": '{"action": "read"}'}
                )
    return build(lake.root, "trial")


def table(section: Section, beginning: str) -> Table:
    """Return the only table whose caption begins so."""
    (found,) = (each for each in section.tables if each.caption.startswith(beginning))
    return found


def test_instances_are_counted_by_resolving_arms(report: Report) -> None:
    """The answer and the table count instances that all, one and no arms resolve."""
    section = shown(report, "instances")
    assert section.answer == (
        "3 of 3 instances (100.0 %) are resolved by at least one of 2 arms: 1 by every arm and 2 "
        "by exactly one. 0 are resolved by none."
    )
    assert table(section, "Instances by").rows[2] == (
        "exactly one arm", "2", "66.7 %", "20.8 % to 93.9 %", "x__y-2, z__z-3",
    )  # fmt: skip
    assert table(section, "Instances of").rows == (
        ("phased", "3", "2", "0", "x__y-2, z__z-3"),
        ("plain", "1", "0", "2", ""),
    )


def test_rates_are_shown_by_repository_and_difficulty(report: Report) -> None:
    """Each repository and each difficulty has the rates of all arms, with intervals."""
    section = shown(report, "instances")
    by_repository = table(section, "Share resolved by repository")
    assert by_repository.header == ("repository", "instances", "phased", "plain")
    assert by_repository.rows[0] == ("x/y", "2", "75.0 % (20 to 97)", "50.0 % (9 to 91)")
    assert table(section, "Share resolved by difficulty").rows[1][0] == "easy"


def test_repeats_are_shown_as_flaky_and_as_chances(report: Report) -> None:
    """With repeats, the section has flaky instances, pass@k and pass^k."""
    section = shown(report, "instances")
    assert table(section, "Flaky").rows == (
        ("phased", "2", "1", "2", "0", "66.7 %"),
        ("plain", "2", "1", "0", "2", "0.0 %"),
    )
    assert table(section, "pass@k").rows[0][1:] == ("66.7 % (21 to 94)", "100.0 % (44 to 100)")
    assert table(section, "pass^k").rows[0][1:] == ("66.7 % (21 to 94)", "33.3 % (6 to 79)")
    assert any("arXiv:2406.12045" in note for note in section.footnotes)


def test_work_is_shown_by_arm(report: Report) -> None:
    """Turns, cache hits, costs by verdict and tools have one row or column for each arm."""
    section = shown(report, "effort")
    assert table(section, "Turns").rows[0] == (
        "phased", "6", "2", "2 to 2", "2.0", "2", "40.0 %", "10",
    )  # fmt: skip
    costs = table(section, "Cost of").rows
    assert costs[0][:2] == ("phased", "4")
    assert costs[0][-1] == "1.00\N{MULTIPLICATION SIGN}"
    assert table(section, "Tools").rows == (
        ("command", "50.0 % (6)", "50.0 % (6)"),
        ("read", "50.0 % (6)", "50.0 % (6)"),
    )
    assert section.answer.startswith("plain makes 2 calls in the middle and 2 at most and pays")
    assert [figure.name for figure in section.figures] == ["calls", "cost-by-verdict"]
    assert not [each for each in section.tables if each.caption.startswith("Money")]


def test_money_is_divided_by_role_and_phase(lake: LakeBuilder) -> None:
    """An arm with several roles has its cost by role and phase; one conversation is no role."""
    lake.declare(["a"], ["i1"])
    row = {"attempt_id": "a1", "instance_id": "i1", "cost_usd": 4.0, "model_calls": 3}
    from tests.reports.lake_fixture import attempt_row

    lake.write("attempts", "a", [attempt_row(**row)])
    lake.write(
        "llm_calls",
        "a",
        [
            lake.call(
                attempt_id="a1", instance_id="i1", seq=seq, role=role, scope=scope, cost_usd=usd
            )
            for seq, (role, scope, usd) in enumerate(
                [("planner", "plan-0", 1.0), ("planner", "plan-1", 2.0), ("", "", 1.0)]
            )
        ],
    )
    section = shown(build(lake.root, "trial"), "effort")
    assert table(section, "Money").rows == (
        ("a", "planner", "plan", "2", "$3.00", "75.0 %", "40.0 %"),
        ("a", "main conversation", "main conversation", "1", "$1.00", "25.0 %", "40.0 %"),
    )


def test_unknown_work_is_one_line(lake: LakeBuilder) -> None:
    """Without calls, costs and steps, there is no section."""
    fill(lake, 2, 5, priced=False)
    report = build(lake.root, "trial")
    assert report.section("effort") is None


def test_before_anything_ran_there_are_no_instances(lake: LakeBuilder) -> None:
    """Before the first attempt, the section on instances says that nothing has run."""
    lake.declare(["a", "b"], ["i1"])
    assert shown(build(lake.root, "trial"), "instances").answer == "Nothing has run yet."


def test_one_arm_and_controls_are_told(lake: LakeBuilder) -> None:
    """One arm is compared with no other, and a control arm is no other arm."""
    lake.declare(["a"], ["i1", "i2"])
    lake.declare(["gold"], ["i1", "i2"], agent="gold")
    lake.cell("a", "i1")
    for instance in ("i1", "i2"):
        lake.cell("gold", instance, model_calls=0, cost_usd=0.0)
    section = shown(build(lake.root, "trial"), "instances")
    assert section.answer == "The only arm resolves 1 of 2 instances."
    assert not [each for each in section.tables if each.caption.startswith("Instances")]


def test_both_sections_are_on_page_and_in_markdown(report: Report) -> None:
    """Page and Markdown have both sections with their tables and definitions."""
    html, text = page.render(report), markdown.render(report)
    outline(html)
    for section in (shown(report, "instances"), shown(report, "effort")):
        assert f"## {section.question}" in text
        for each in section.tables:
            assert each.caption.partition(":")[0].replace("^", "^") in html
        assert section.footnotes[0][:60] in html
