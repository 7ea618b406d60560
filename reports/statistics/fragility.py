"""The number of wrong verdicts that the result of a paired test survives."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from math import sqrt
from statistics import NormalDist
from typing import NamedTuple

from reports.estimates import InstanceLeads, PairedTable
from reports.statistics.paired import PairedTest


class Verdicts(NamedTuple):
    """The pairs of cells of an instance, counted by the arms that resolve them."""

    alike: int
    """Both or neither."""
    ahead: int
    """Only the leading arm."""
    behind: int
    """Only the other arm."""


def wrong_verdicts_for_another_sign(leads: InstanceLeads) -> int:
    """Return the fewest wrong verdicts that would make the other arm resolve more cells.

    One wrong verdict of one arm changes the total lead by one cell, so the number is the total lead
    and one more. It is 1 for equal arms.
    """
    return abs(leads.total) + 1


def wrong_verdicts_for_another_test(instances: Mapping[Verdicts, int], level: float) -> int | None:
    """Return how many wrong verdicts make a significant test insignificant, or the reverse.

    `instances` has the number of instances by their verdicts. The test is `PairedTest`, significant
    below `level`. Each wrong verdict of one cell in one arm changes the lead at one instance by one
    cell: towards the other arm for a significant test, towards the leading arm for another one.
    The instances with the lowest leads come first, which leaves the variance as large or makes it
    as small as possible.

    Without repeats the number is the smallest that turns the test. With repeats that many are
    enough, and fewer may be. Return None if no number turns it: instances can be too few for any
    significance.

    The count of changed outcomes that turns a test: Walsh, M. et al. (2014). The statistical
    significance of randomized controlled trial results is frequently fragile: a case for a
    Fragility Index. Journal of Clinical Epidemiology 67, 622-628. Theirs are events of one arm
    and Fisher's test.
    """
    start = Counter(instances)
    is_significant = _p_value(start) < level
    move = _fall if is_significant else _rise
    total = sum((verdicts.ahead - verdicts.behind) * number for verdicts, number in start.items())
    room = sum(
        (verdicts.alike + 2 * verdicts.behind) * number for verdicts, number in start.items()
    )
    most = total if is_significant else room

    def has_turned(wrong: int) -> bool:
        return (_p_value(move(start, wrong)) < level) != is_significant

    if most < 1 or not has_turned(most):
        return None
    return bisect_left(range(1, most), True, key=has_turned) + 1


def random_errors_for_another_test(leads: InstanceLeads, level: float) -> float | None:
    """Return the rate of further random errors at which a significant test stops being significant.

    Each verdict of both arms turns with this chance e, independently of all else. The expected lead
    of an instance is then (1 - 2 e) times the lead without errors, and each of its pairs adds
    2 e (1 - e) to the expected square of the lead. With these expectations, e is where the squared
    sum of all leads divided by the sum of squared leads is the quantile of the chi-squared
    distribution. Such errors lower the expected difference and do not turn its sign. Return None if
    that ratio is not above the quantile without errors.

    Bross, I. (1954). Misclassification in 2 × 2 tables. Biometrics 10, 478-486. The ratio is that
    of McNemar's test, with whole instances as in Durkalski, V. L. et al. (2003). Statistics in
    Medicine 22, 2417-2428.
    """
    quantile = NormalDist().inv_cdf(1 - level / 2) ** 2
    excess = leads.total**2 - quantile * leads.spread(0.0)
    if excess <= 0:
        return None
    added = quantile * leads.pairs / 2
    return (1 - sqrt(added / (excess + added))) / 2


def _p_value(instances: Mapping[Verdicts, int]) -> float:
    alike, ahead, behind = (
        sum(verdicts[place] * number for verdicts, number in instances.items())
        for place in range(3)
    )
    leads: Counter[tuple[int, int]] = Counter()
    for verdicts, number in instances.items():
        if number:
            leads[sum(verdicts), verdicts.ahead - verdicts.behind] += number
    return PairedTest(PairedTable(alike, behind, ahead, 0), InstanceLeads(leads)).p_value()


def _fall(start: Mapping[Verdicts, int], cells: int) -> Counter[Verdicts]:
    """Lower the leads by so many cells in all, one instance after another."""
    moved = Counter(start)
    for verdicts in sorted(start, key=_by_lead):
        far = verdicts.alike + 2 * verdicts.ahead
        if not far:
            continue
        whole = min(start[verdicts], cells // far)
        moved[verdicts] -= whole
        moved[Verdicts(0, 0, sum(verdicts))] += whole
        cells -= whole * far
        if whole < start[verdicts]:
            moved[verdicts] -= 1
            taken = min(verdicts.alike, cells)
            turned, rest = divmod(cells - taken, 2)
            moved[
                Verdicts(
                    verdicts.alike - taken + rest,
                    verdicts.ahead - turned - rest,
                    verdicts.behind + taken + turned,
                )
            ] += 1
            break
    return moved


def _rise(start: Mapping[Verdicts, int], cells: int) -> Counter[Verdicts]:
    """Raise the leads by so many cells in all, the lowest ones first."""
    moved = Counter(start)
    while cells:
        lowest = min(
            (
                verdicts
                for verdicts, instances in moved.items()
                if instances and verdicts[0] + verdicts[2]
            ),
            key=_by_lead,
        )
        number = min(moved[lowest], cells)
        alike, ahead, behind = lowest
        moved[lowest] -= number
        risen = (alike + 1, ahead, behind - 1) if behind else (alike - 1, ahead + 1, behind)
        moved[Verdicts(*risen)] += number
        cells -= number
    return moved


def _by_lead(verdicts: Verdicts) -> tuple[int, Verdicts]:
    return verdicts.ahead - verdicts.behind, verdicts
