"""How many wrong verdicts turn the leading comparison, and how often do gradings disagree?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from reports.estimates import LEVEL
from reports.format import count, percent, percents, plural
from reports.relations import read_rows
from reports.rendering.sections import Section, Table
from reports.statistics.fragility import (
    Verdicts,
    random_errors_for_another_test,
    wrong_verdicts_for_another_sign,
    wrong_verdicts_for_another_test,
)
from reports.statistics.proportions import wilson_interval
from reports.types import Comparison, Report

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

TITLE = "How wrong may the grader be?"

LISTED = 50
"""Maximum number of cells with a verdict that flips that are listed."""

_VERDICTS = """
    with pairs as (
        select
            instance_id,
            ahead.state = 'resolved' as is_ahead,
            behind.state = 'resolved' as is_behind
        from marts.cells as ahead
        inner join marts.cells as behind using (instance_id, repeat)
        where ahead.arm = $ahead and behind.arm = $behind
    ),

    instances as (
        select
            (count(*) filter (is_ahead = is_behind))::integer as alike,
            (count(*) filter (is_ahead and not is_behind))::integer as only_ahead,
            (count(*) filter (is_behind and not is_ahead))::integer as only_behind
        from pairs
        group by instance_id
    )

    select alike, only_ahead, only_behind, count(*) from instances group by all
"""


def answer(connection: DuckDBPyConnection, report: Report) -> Section | None:
    """Return the answer, or None without a comparison with verdicts and a second grading."""
    arms = {arm.name for arm in report.arms}
    again = [row for row in read_rows(connection, "from marts.gradings") if row["arm"] in arms]
    pair = next(iter(report.comparisons), None)
    if pair and not (pair.table.both or pair.table.discordant):
        pair = None
    if not pair and not again:
        return None
    brief = " ".join(_count_errors(connection, pair)) if pair else ""
    sentences = [brief, *_draw_errors(pair)]
    flips = [row for row in again if row["is_flipped"]]
    tables: tuple[Table, ...] = ()
    if again:
        interval = percents(wilson_interval(len(flips), len(again)))
        sentences.append(
            f"Patches graded more than once: {count(len(again))}. Of these, {count(len(flips))} "
            f"({percent(len(flips) / len(again))}, 95 % interval {interval}) had another verdict."
        )
    if flips:
        rows = [(row["arm"], row["instance_id"], str(row["repeat"] + 1)) for row in flips[:LISTED]]
        caption = "Verdicts that flip between gradings"
        if len(flips) > LISTED:
            caption += f" (and {count(len(flips) - LISTED)} more)"
        tables = (Table(caption, ("arm", "instance", "repeat"), tuple(rows), 2),)
    return Section(
        "gradings",
        TITLE,
        " ".join(filter(None, sentences)),
        tables,
        tuple(_footnotes(pair, again)),
        is_detail=True,
        brief=(brief,) if brief else (),
    )


def _count_errors(connection: DuckDBPyConnection, pair: Comparison) -> Iterator[str]:
    """Yield how many wrong verdicts turn the test, and how many turn the difference."""
    verdicts = 2 * pair.table.pairs

    def wrong(number: int) -> str:
        share = percent(number / verdicts)
        return f"{plural(number, 'wrong verdict')} of {count(verdicts)} ({share})"

    arms = {"ahead": pair.candidate, "behind": pair.baseline}
    if pair.leads.total < 0:
        arms = {"ahead": pair.baseline, "behind": pair.candidate}
    rows = connection.execute(_VERDICTS, arms).fetchall()
    instances = {Verdicts(*verdicts): number for *verdicts, number in rows}
    to_turn_test = wrong_verdicts_for_another_test(instances, LEVEL)
    if to_turn_test is None:
        yield f"No number of wrong verdicts would make the test significant at {percent(LEVEL)}."
    else:
        few = "as few as " if pair.has_repeats else ""
        turned = "is no longer significant" if pair.p_value < LEVEL else "becomes significant"
        yield (
            f"The test between {pair.candidate} and {pair.baseline} {turned} with {few}"
            f"{wrong(to_turn_test)}, if all err in one direction."
        )
    difference = pair.table.difference
    other = pair.baseline if difference > 0 else pair.candidate if difference else "either arm"
    to_turn_sign = wrong_verdicts_for_another_sign(pair.leads)
    yield f"With {wrong(to_turn_sign)}, {other} resolves more."


def _draw_errors(pair: Comparison | None) -> Iterator[str]:
    """Yield the rate of errors at random at which a significant test stops being significant."""
    if pair and pair.p_value < LEVEL:
        rate = random_errors_for_another_test(pair.leads, LEVEL)
        if rate is not None:
            yield (
                "If each verdict of both arms were wrong at random besides, the test would on "
                f"average be no longer significant from a rate of {percent(rate)} on."
            )


def _footnotes(pair: Comparison | None, again: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if pair:
        how = (
            "a number that is enough, while fewer may be"
            if pair.has_repeats
            else "the smallest such number"
        )
        yield (
            "A wrong verdict is a resolved cell that is not, or the reverse, in one of both arms. "
            f"The number that turns the test is {how}: all of them err against the arm that leads "
            "(for it, where the test is not significant), and at the instances where one changes "
            "the p-value most. It is the worst case: errors at random, with one rate in both arms, "
            "only make the expected difference smaller and do not turn its sign (Bross 1954, "
            "Biometrics 10, 478-486). The test is the test of the difference at "
            f"{percent(LEVEL)}, before Holm's correction. Walsh et al. (2014), Journal of Clinical "
            "Epidemiology 67, 622-628, count changed outcomes in this way."
        )
    if again:
        flaky = sum(row["is_flaky"] or row["is_flipped"] for row in again)
        yield (
            "Gradings of one patch: by an audit, which grades it a second time under the same "
            f"conditions, or with another harness. {plural(flaky, 'cell')} had tests with other "
            "results, those with another verdict included. Which patches are graded again is a "
            "choice, often cells that count as resolved, so that the share need not hold for all. "
            "Equal gradings can both be wrong."
        )
