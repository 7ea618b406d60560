"""Clauses of the headline on what would turn its conclusion."""

from collections.abc import Callable, Iterator

from reports.analysis.best import Best
from reports.format import p_value, percent, plural, points
from reports.statistics import PairedTest
from reports.types import WITHOUT_VERDICT, ArmSummary, InstanceLeads, PairedTable, Report

LEVEL = 0.05
"""From this p-value on, a difference may be chance."""

CLEAR = 0.001
"""Below this p-value, a difference is clear."""


def turning(report: Report, best: Best | None = None) -> str:
    """Return a clause for each analysis that would turn the conclusion on resolution.

    `best` is given if the conclusion is that this arm is the best of several. Otherwise it is that
    of the first comparison. A conclusion turns if another arm leads, if a difference is no longer
    shown, or if it is shown only then.
    """
    clauses = [*_of_the_pair(report, best), *(_of_all(best) if best else ())]
    return "".join(f", {clause}" for clause in clauses)


def _of_the_pair(report: Report, best: Best | None) -> Iterator[str]:
    """Yield a clause for the first comparison without lost cells and without suspect verdicts."""
    resampled = report.resampled
    if resampled is None:
        return
    pair, comparisons = report.comparisons[0], len(best.rivals) if best else 1
    value = pair.p_value if pair.adjusted_p_value is None else pair.adjusted_p_value
    sign = _sign(pair.table, comparisons * value)
    lost = _lost_cells(report.arm(pair.baseline), report.arm(pair.candidate))
    others: tuple[tuple[str, str, PairedTable, InstanceLeads], ...] = (
        (lost, "failures", resampled.complete, resampled.complete_leads),
        ("suspect verdicts", "resolved", resampled.trusted, resampled.trusted_leads),
    )
    for what, counted, table, leads in others:
        if not table.pairs or table == pair.table:
            continue
        value = PairedTest(table, leads).p_value()
        if _sign(table, comparisons * value) == sign:
            continue
        against = f" against {pair.baseline}" if best else ""
        rest = f"it is {points(table.difference)} points{against} (p = {p_value(value)}"
        rest += f", {plural(table.pairs, 'pair')})" if table.pairs < pair.table.pairs else ")"
        if sign:
            yield f"but only if {what} count as {counted}: without them {rest}"
        else:
            yield f"but without {what} {rest}"


def _of_all(best: Best) -> Iterator[str]:
    """Yield a clause for each other way to count with which a worse arm would be the best."""
    worse = [rival.arm for rival in best.rivals if rival.p_value < LEVEL]
    ways: tuple[tuple[str, Callable[[ArmSummary], float]], ...] = (
        ("of the cells with a verdict", _rate_of_graded),
        ("without suspect verdicts", lambda arm: (arm.resolved - arm.suspect) / arm.planned),
    )
    for where, rate in ways:
        leader = max(worse, key=rate, default=best.arm)
        if rate(leader) > rate(best.arm):
            yield (
                f"but {where} {leader.name} resolves more ({percent(rate(leader))} against "
                f"{percent(rate(best.arm))})"
            )


def _rate_of_graded(arm: ArmSummary) -> float:
    """Return the resolved share of the cells with a verdict, which is at least `arm.rate`.

    Without a verdict for half of the cells, it would be that of very few, and is not used.
    """
    graded = arm.planned - sum(arm.states[state] for state in WITHOUT_VERDICT)
    return arm.resolved / graded if 2 * graded >= arm.planned else arm.rate


def _lost_cells(*arms: ArmSummary) -> str:
    """Return what to call the cells of these arms that have no verdict."""
    lost = {state for state in WITHOUT_VERDICT if any(arm.states[state] for arm in arms)}
    return "stopped cells" if lost == {"stopped"} else "lost cells"


def _sign(table: PairedTable, value: float) -> int:
    """Return the direction of a difference, or 0 if it may be chance."""
    if value >= LEVEL:
        return 0
    return 1 if table.difference > 0 else -1
