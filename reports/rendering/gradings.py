"""How wrong may the grader be?"""

from __future__ import annotations

from collections.abc import Iterator

from reports.analysis.gradings import LEVEL
from reports.format import count, percent, plural
from reports.gradings import Gradings
from reports.rendering.sections import Section, Table
from reports.statistics import wilson_interval
from reports.types import Comparison, Report

TITLE = "How wrong may the grader be?"

LISTED = 50
"""Maximum number of cells with a verdict that flips that are listed."""


def gradings_section(report: Report) -> Section | None:
    """Return the answer, or None without a comparison with verdicts and a second grading."""
    found = report.gradings
    if not found.verdicts and not found.graded_again:
        return None
    return Section(
        "gradings",
        TITLE,
        " ".join(_answer(report)),
        tuple(_tables(found)),
        tuple(_footnotes(found)),
    )


def gradings_line(report: Report) -> str:
    """Return what the terminal says: how many wrong verdicts turn the result; empty without one."""
    return " ".join(_robustness(report))


def _answer(report: Report) -> Iterator[str]:
    found = report.gradings
    yield from _robustness(report)
    if found.random_errors is not None:
        yield (
            "If each verdict of both arms were wrong at random besides, the test would on average "
            f"be no longer significant from a rate of {percent(found.random_errors)} on."
        )
    if found.graded_again:
        share = len(found.flips) / found.graded_again
        interval = wilson_interval(len(found.flips), found.graded_again)
        yield (
            f"Patches graded more than once: {count(found.graded_again)}. Of these, "
            f"{count(len(found.flips))} ({percent(share)}, 95 % interval {percent(interval.low)} "
            f"to {percent(interval.high)}) had another verdict."
        )


def _robustness(report: Report) -> Iterator[str]:
    found = report.gradings
    if not found.verdicts:
        return
    pair = report.comparisons[0]
    is_significant = pair.p_value < LEVEL
    if found.to_turn_test is None:
        yield f"No number of wrong verdicts would make the test significant at {percent(LEVEL)}."
    else:
        few = "" if found.is_fewest else "as few as "
        turned = "is no longer significant" if is_significant else "becomes significant"
        yield (
            f"The test between {pair.candidate} and {pair.baseline} {turned} with {few}"
            f"{_wrong(found.to_turn_test, found)}, if all err in one direction."
        )
    yield f"With {_wrong(found.to_turn_sign, found)}, {_other(pair)}."


def _other(pair: Comparison) -> str:
    difference = pair.table.difference
    if not difference:
        return "either arm resolves more"
    behind = pair.baseline if difference > 0 else pair.candidate
    return f"{behind} resolves more"


def _wrong(number: int, found: Gradings) -> str:
    share = percent(number / found.verdicts)
    return f"{plural(number, 'wrong verdict')} of {count(found.verdicts)} ({share})"


def _tables(found: Gradings) -> Iterator[Table]:
    if found.flips:
        rows = tuple(
            (one.arm, one.instance_id, str(one.repeat + 1)) for one in found.flips[:LISTED]
        )
        rest = len(found.flips) - len(rows)
        more = f" (and {count(rest)} more)" if rest else ""
        yield Table(
            f"Verdicts that flip between gradings{more}", ("arm", "instance", "repeat"), rows, 2
        )


def _footnotes(found: Gradings) -> Iterator[str]:
    if found.verdicts:
        how = (
            "the smallest such number"
            if found.is_fewest
            else "a number that is enough, while fewer may be"
        )
        yield (
            "A wrong verdict is a resolved cell that is not, or the reverse, in one of both arms. "
            f"The number that turns the test is {how}: all of them err against the arm that leads "
            "(for it, where the test is not significant), and at the instances where one changes "
            "the p-value most. It is the worst case: errors at random, with one rate in both arms, "
            "only make the expected difference smaller and do not turn its sign (Bross 1954, "
            "Biometrics 10, 478-486). The test is that of the difference at "
            f"{percent(LEVEL)}, before Holm's correction. Walsh et al. (2014), Journal of Clinical "
            "Epidemiology 67, 622-628, count "
            "changed outcomes in this way."
        )
    if found.graded_again:
        yield (
            "Gradings of one patch: by an audit, which grades it a second time under the same "
            "conditions, or with another harness. "
            f"{plural(found.flaky, 'cell')} had tests with other results, those with another "
            "verdict included. Which patches are graded again is a choice, often those that count "
            "as resolved, so that the share need not hold for all. Equal gradings can both be "
            "wrong."
        )
