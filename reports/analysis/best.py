"""The best arm, and the arms that may be as good: multiple comparisons with the best."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf

from reports.estimates import LEVEL
from reports.types import ArmSummary, Comparison, Provenance, Report

NO_MODEL = ("unknown", "none", "")
"""Models of arms that are not known to have one."""

NAMED = 2
"""Maximum number of arms that the headline names as perhaps as good as the best one."""


@dataclass(frozen=True)
class Rival:
    """An arm against the best one."""

    arm: ArmSummary
    pair: Comparison
    lead: float
    """Rate of the best arm minus the rate of this arm over the cells that both plan, a share."""
    p_value: float
    """Two-sided p-value of the paired test, times the number of rivals and at most 1."""


@dataclass(frozen=True)
class Best:
    """The arm that resolves the largest share of its planned cells."""

    arm: ArmSummary
    rivals: tuple[Rival, ...]
    """All other arms in question, in the order of `rank_arms`."""

    @property
    def next(self) -> Rival:
        """The rival that resolves most."""
        return self.rivals[0]

    def as_good(self, level: float) -> tuple[Rival, ...]:
        """Return the rivals that are not shown to be worse at this level."""
        return tuple(rival for rival in self.rivals if rival.p_value >= level)


def contenders(arms: Iterable[ArmSummary]) -> list[ArmSummary]:
    """Return the arms that ran and had answers, without controls."""
    return [arm for arm in arms if arm.started and arm.has_answers and not arm.is_control]


def rank_arms(arms: Iterable[ArmSummary]) -> list[ArmSummary]:
    """Return arms by the share they resolve, the best first. Of equal ones, the cheaper is first.

    Arms that never ran or had no answer are last, and controls after them.
    """

    def rank(arm: ArmSummary) -> tuple[bool, bool, float, float]:
        cost = arm.cost_per_instance
        is_last = not (arm.started and arm.has_answers)
        return arm.is_control, is_last, -arm.rate, inf if cost is None else cost

    return sorted(arms, key=rank)


def is_chosen_by_the_data(
    source: Provenance, arms: Sequence[ArmSummary], comparisons: Sequence[Comparison]
) -> bool:
    """Return True if the data, and no plan, put the best of several arms into the first pair."""
    if not comparisons or comparisons[0].role != "exploratory" or len(contenders(arms)) < 3:
        return False
    return not any(plan.primary for plan in (source.plan, *source.later_plans))


def find_best(report: Report, arms: Sequence[ArmSummary]) -> Best | None:
    """Return the best of these arms and its comparisons, or None without a rival that ran.

    The data choose the best arm, so the p-values count all its comparisons. The arms with a p-value
    of at least 5 % and the best arm are a set that holds the arm that is truly best with a chance
    of at least 95 %: it is left out only if one of its comparisons errs, as many as were counted
    (Bonferroni), whichever arm the data choose.

    Hsu, J. C. (1981). Simultaneous confidence intervals for all distances from the "best". Annals
    of Statistics 9, 1026-1034. DOI 10.1214/aos/1176345582
    """
    ranked = rank_arms(contenders(arms))
    if len(ranked) < 2:
        return None
    best, *others = ranked
    pairs = {frozenset((pair.baseline, pair.candidate)): pair for pair in report.comparisons}
    rivals = []
    for arm in others:
        if pair := pairs.get(frozenset((best.name, arm.name))):
            lead = pair.table.difference if pair.table.pairs else 0.0
            lead = lead if pair.candidate == best.name else -lead
            rivals.append(Rival(arm, pair, lead, min(1.0, len(others) * pair.p_value)))
    return Best(best, tuple(rivals)) if rivals else None


def find_best_of_models(report: Report) -> tuple[Best, ...]:
    """Return the best arm of each model with several arms, the best model first.

    The p-values count the comparisons of the same model. Empty if there is only one model.
    """
    arms: dict[str, list[ArmSummary]] = defaultdict(list)
    for arm in contenders(report.arms):
        if arm.model not in NO_MODEL:
            arms[arm.model].append(arm)
    if len(arms) < 2:
        return ()
    winners = [best for group in arms.values() if (best := find_best(report, group))]
    return tuple(sorted(winners, key=lambda best: -best.arm.rate))


def best_of_many(report: Report) -> Best | None:
    """Return the best arm and its rivals if nothing but the data put the first pair there.

    Of two arms there is only one pair, and it needs no choice.
    """
    if not is_chosen_by_the_data(report.source, report.arms, report.comparisons):
        return None
    return find_best(report, report.arms)


def get_named_arms(report: Report) -> frozenset[str]:
    """Return the names of the arms that the headline may be about: a few more than it names."""
    names: set[str] = set()
    for pair in report.comparisons[:1]:
        names |= {pair.baseline, pair.candidate}
    if best := best_of_many(report):
        names |= {rival.arm.name for rival in best.as_good(LEVEL)[:NAMED]}
        names |= {arm.arm for arm in report.worth.frontier[:1]}
    return frozenset(names)
