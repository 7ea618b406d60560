"""The numbers that a report shows for the leading pair of arms."""

from collections.abc import Callable

import pytest

from reports.build import build
from reports.estimates import InstanceLeads, PairedTable
from reports.format import p_value, points
from reports.questions.instances.section import read_repeats
from reports.relations import open_marts
from reports.rendering import markdown, page
from reports.statistics.paired import PairedTest
from reports.types import Report
from tests.reports.lake_fixture import LakeBuilder
from tests.reports.shown import Line, footnotes, line, lines, section, summary

pytestmark = pytest.mark.sampled(4)

MINUS = "\N{MINUS SIGN}"
TIMES = "\N{MULTIPLICATION SIGN}"
DASH = "\N{EN DASH}"


def leading(lake: LakeBuilder) -> Report:
    """Return the report of the experiment `trial`."""
    return build(lake.root, "trial")


@pytest.fixture
def repeated(lake: LakeBuilder) -> LakeBuilder:
    """Return a lake with two repeats: `a` resolves 1 of 4 cells and `b` 3 of 4."""
    lake.declare(["a", "b"], ["x__x-1", "y__y-2"], repeats=2)
    verdicts = {"a": "ru uu", "b": "rr ru"}
    for arm, words in verdicts.items():
        for instance, word in zip(("x__x-1", "y__y-2"), words.split(), strict=True):
            repo = instance[:4].replace("__", "/")
            for repeat, letter in enumerate(word):
                outcome = "resolved" if letter == "r" else "unresolved"
                lake.cell(arm, instance, outcome, repeat=repeat, repo=repo)
    return lake


def test_difference_and_p_are_of_one_test(two_arms: LakeBuilder) -> None:
    """The pair has one interval of the difference and one p-value, both of the same test."""
    found = leading(two_arms)
    assert line(found, "difference, points") == Line(
        "difference, points", "0.0", f"{MINUS}74.2 to +74.2", "4 pairs", "paired test"
    )
    assert line(found, "p") == Line("p", "1.00", DASH, "2 discordant pairs", "paired test")
    assert sum(note.startswith("Paired test: p is twice") for note in footnotes(found)) == 1


def test_amounts_come_as_ratio_and_as_difference(two_arms: LakeBuilder) -> None:
    """Amounts are shown as ratio and as signed difference, each with an interval."""
    found = leading(two_arms)
    ratio, difference = line(found, "cost, ratio"), line(found, "cost, difference per cell")
    assert (ratio.value, ratio.interval) == (f"3.00{TIMES}", f"3.00{TIMES} to 3.00{TIMES}")
    assert (difference.value, difference.over) == ("+$1.00", "4 pairs")
    assert difference.method == "bootstrap-t by instance"
    assert line(found, "tokens, difference per cell").value == "0"
    assert line(found, "time, difference per cell").value == "0.0 s"


def test_the_cheaper_candidate_has_minus_signs(two_arms: LakeBuilder) -> None:
    """The minus sign precedes the currency."""
    found = build(two_arms.root, "trial", baseline="careful")
    assert line(found, "cost, difference per cell").value == f"{MINUS}$1.00"


def test_degenerate_resamples_are_counted_and_make_a_limit_unlimited(two_arms: LakeBuilder) -> None:
    """Resamples without a resolved instance are counted; too many make the limit `unlimited`."""
    quick = line(leading(two_arms), "quick")
    assert (quick.value, quick.interval.rpartition(" to ")[2]) == ("$1.00", "unlimited")
    pairs, _, degenerate = quick.over.partition("; ")
    number, _, rest = degenerate.partition(" of ")
    assert (pairs, rest) == ("4 pairs", "10,000 resamples degenerate")
    assert int(number) == pytest.approx(10_000 / 16, abs=100)


def test_no_degenerate_resample_is_not_mentioned(lake: LakeBuilder) -> None:
    """The number of degenerate resamples is left out where it is 0."""
    lake.declare(["a", "b"], ["i1", "i2"])
    for arm, instance in (("a", "i1"), ("a", "i2"), ("b", "i1"), ("b", "i2")):
        lake.cell(arm, instance, "resolved", cost=1.0)
    assert line(leading(lake), "a").over == "2 pairs"


def test_nothing_resolved_and_nothing_known_are_dashes(lake: LakeBuilder) -> None:
    """Undefined and unknown values are dashes, neither infinity nor zero."""
    lake.declare(["a", "b"], ["i1", "i2"])
    for instance in ("i1", "i2"):
        lake.cell("a", instance, "unresolved")
        lake.cell("b", instance, duration_s=None)
    found = leading(lake)
    nothing = line(found, "a")
    assert (nothing.value, nothing.interval, nothing.over) == (DASH, DASH, "2 pairs")
    assert not [each for each in lines(found) if each.name.startswith("time")]


def test_one_repository_gives_no_limit(two_arms: LakeBuilder) -> None:
    """With one repository, the interval by repository is the word `unlimited`."""
    by_repository = line(leading(two_arms), "difference by repository, points")
    assert (by_repository.interval, by_repository.over) == ("unlimited", "1 repository")
    assert by_repository.method == "bootstrap by repository"


def test_complete_pairs_leave_out_what_was_lost(two_arms: LakeBuilder) -> None:
    """A pair whose latest attempt has no verdict yet is not complete."""
    later = two_arms.attempt("careful", "i3", later_s=60)
    two_arms.predict("careful", "i3", later)
    found = leading(two_arms)
    complete = line(found, "difference, complete pairs, points")
    assert (complete.value, complete.over) == (f"{MINUS}33.3", "3 of 4 pairs")
    assert line(found, "difference, points").value == f"{MINUS}25.0"


def test_an_experiment_that_has_not_begun_has_dashes(lake: LakeBuilder) -> None:
    """Before the first attempt, there are no amounts and all cells count as not resolved."""
    lake.declare(["a", "b"], ["i1", "i2"])
    found = leading(lake)
    assert line(found, "difference, complete pairs, points").value == DASH
    assert line(found, "difference, points").value == "0.0"
    assert section(found, "cost").tables == ()
    assert "ratio of cost" not in summary(found)


def test_repeats_are_tested_by_instance(repeated: LakeBuilder) -> None:
    """With repeats, interval and test take the repeats of an instance together."""
    found = leading(repeated)
    test = PairedTest(PairedTable(1, 0, 2, 1), InstanceLeads({(2, 1): 2}))
    limits = f"{points(test.interval().low)} to {points(test.interval().high)}"
    p = p_value(test.p_value())
    assert line(found, "difference, points") == Line(
        "difference, points", "+50.0", limits, "4 pairs", "paired test"
    )
    assert line(found, "p") == Line("p", p, DASH, "2 of 2 instances differ", "paired test")
    names = {each.name for each in lines(found)}
    assert not any("complete pairs" in name or "suspect" in name for name in names)
    assert any("not taken for independent" in note for note in footnotes(found))


def test_instances_that_do_not_differ_leave_no_certainty(lake: LakeBuilder) -> None:
    """If all resamples are equal, the interval is unlimited, not of zero width."""
    lake.declare(["a", "b"], ["x__x-1", "y__y-2"], repeats=2)
    for arm in ("a", "b"):
        for instance in ("x__x-1", "y__y-2"):
            for repeat in range(2):
                lake.cell(arm, instance, repeat=repeat, repo=instance[:4].replace("__", "/"))
    found = leading(lake)
    assert line(found, "difference by repository, points").interval == "unlimited"


def test_a_statistic_has_one_place_and_one_interval(repeated: LakeBuilder) -> None:
    """pass@1 is the rate of an arm, with the same interval, and pass@k is shown only once."""
    report = build(repeated.root, "trial")
    connection = open_marts(repeated.root, "trial")
    by_arm = {each.arm: each.pass_at[1] for each in read_repeats(connection)}
    connection.close()
    for arm in report.arms:
        assert (by_arm[arm.name].value, by_arm[arm.name].interval) == (arm.rate, arm.interval)
    assert markdown.render(report).count("pass@k: at least one of k") == 1
    assert "pass@1" not in markdown.render(report)
    names = [each.name for each in lines(report)]
    assert len(names) == len(set(names))
    assert "difference by instance, points" not in names


def test_one_arm_has_no_leading_pair(lake: LakeBuilder) -> None:
    """With a single arm there is no leading pair, and the page has no section for it."""
    lake.declare(["a"], ["i1"])
    report = build(lake.root, "trial")
    assert report.resampled is None
    assert 'id="leading"' not in page.render(report)


def test_the_summary_names_method_level_resamples_and_seed(two_arms: LakeBuilder) -> None:
    """The summary for the terminal states method, level, resamples and seed in one sentence."""
    assert summary(leading(two_arms)) == (
        "careful against quick (primary): Difference of resolution 0.0 points (95 % interval "
        f"{MINUS}74.2 to +74.2), p = 1.00, paired test; ratio of cost 3.00{TIMES} (95 % interval "
        f"3.00{TIMES} to 3.00{TIMES}, bootstrap by instance, 10,000 resamples, seed 1)."
    )


@pytest.mark.parametrize("render", [markdown.render, page.render], ids=["markdown", "page"])
def test_markdown_and_page_show_every_line_and_footnote(
    repeated: LakeBuilder, render: Callable[[Report], str]
) -> None:
    """Markdown and page show the same lines and footnotes of the leading pair."""
    report = build(repeated.root, "trial")
    text = render(report)
    for told in lines(report):
        assert all(cell in text for cell in told), told
    assert all(note in text for note in footnotes(report))


def test_a_rounding_error_is_no_difference(lake: LakeBuilder) -> None:
    """A difference that is only a rounding error of floats is shown as zero."""
    lake.declare(["a", "b"], ["i1", "i2"])
    for arm, costs in (("a", (0.15, 0.15)), ("b", (0.1, 0.2))):
        for instance, cost in zip(("i1", "i2"), costs, strict=True):
            lake.cell(arm, instance, cost_usd=cost)
    assert line(leading(lake), "cost, difference per cell").value == "$0"
