"""What a report is made of. All shares are between 0 and 1, all costs in USD."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple

from reports.losses import FailureClass, Failures, Spending

State = Literal[
    "resolved",
    "unresolved",
    "no_patch",
    "patch_failed",
    "timeout",
    "infrastructure",
    "stopped",
    "ungraded",
    "missing",
]

STATES: Mapping[State, str] = {
    "resolved": "resolved",
    "unresolved": "unresolved",
    "no_patch": "no patch",
    "patch_failed": "patch failed",
    "timeout": "grading timed out",
    "infrastructure": "infrastructure",
    "stopped": "stopped",
    "ungraded": "not graded",
    "missing": "never run",
}
"""Every way in which a planned cell can stand, and its name for a reader."""

Role = Literal["primary", "declared", "chosen", "exploratory"]

Pair = tuple[str, str]
"""Baseline and candidate."""


@dataclass(frozen=True)
class Plan:
    """What a declaration says of the analysis."""

    primary: Pair | None = None
    margin: float | None = None
    """Largest loss with which the primary candidate counts as not worse, a share."""
    family: tuple[Pair, ...] = ()
    """The other declared comparisons."""
    declared_at: datetime | None = None
    """UTC; None where nothing was declared."""

    @property
    def comparisons(self) -> tuple[Pair, ...]:
        """All that are declared, the primary one first."""
        return ((self.primary,) if self.primary else ()) + self.family

    def role_of(self, pair: Pair) -> Role:
        """What the comparison of these arms was declared as; the other way round it is the same."""
        if self.primary and set(self.primary) == set(pair):
            return "primary"
        if any(set(declared) == set(pair) for declared in self.family):
            return "declared"
        return "exploratory"

    def is_same_as(self, other: "Plan") -> bool:
        """Whether both plan the same analysis; only a margin gives a comparison a direction."""
        return self._content == other._content

    @property
    def _content(self) -> tuple[object, ...]:
        primary = frozenset(self.primary or ()) if self.margin is None else self.primary
        return primary, self.margin, frozenset(map(frozenset, self.family))


@dataclass(frozen=True)
class Interval:
    """A two-sided interval."""

    low: float
    high: float


@dataclass(frozen=True)
class Estimate:
    """A number with its interval, by a bootstrap over clusters."""

    value: float
    interval: Interval
    """A limit is infinite where too many resamples are degenerate, both are with one cluster."""
    clusters: int
    """Instances or repositories that were resampled."""
    degenerate: int
    """Resamples in which the number is undefined or infinite, as a cost per resolved instance
    is where none is resolved."""


@dataclass(frozen=True)
class Tokens:
    """Sums over the attempts that count and whose tokens are known; None where none are."""

    input: int | None
    """Cached ones included."""
    cache_read: int | None
    cache_write: int | None
    output: int | None
    """Reasoning included."""
    reasoning: int | None
    unknown_cells: int = 0
    """Cells that ran and whose tokens are not known: the sums are then lower bounds."""

    @property
    def is_lower_bound(self) -> bool:
        """Whether there may be more tokens than the sums say."""
        return self.unknown_cells > 0

    @property
    def total(self) -> int | None:
        """Input and output."""
        return None if None in (self.input, self.output) else (self.input or 0) + (self.output or 0)


@dataclass(frozen=True)
class Cost:
    """What an arm's counted attempts cost."""

    usd: float | None
    """Sum of what is known; None when nothing is."""
    incomplete_cells: int
    """Cells that ran and whose cost is not fully known: `usd` is then a lower bound."""
    unpriced_calls: int
    """Calls without a known price."""

    @property
    def is_lower_bound(self) -> bool:
        """Whether the true cost may be higher than `usd`."""
        return self.incomplete_cells > 0

    def per(self, count: int) -> float | None:
        """USD per one of `count`; None when the cost is unknown or there is none of them."""
        return None if self.usd is None or count == 0 else self.usd / count


@dataclass(frozen=True)
class ArmSummary:
    """One declared arm over all its planned cells."""

    name: str
    agent: str
    model: str
    simulated: bool
    on_host: bool
    planned: int
    """Cells: instances × repeats. The denominator."""
    started: int
    """Cells with at least one attempt."""
    states: Mapping[State, int]
    """Planned cells by state; they sum to `planned`."""
    suspect: int
    """Resolved cells that the audit doubts."""
    unaudited: int
    """Resolved cells that nobody audited."""
    interval: Interval
    """95 % Wilson interval of `rate`, with each instance as one trial."""
    tokens: Tokens
    cost: Cost
    cells_with_cost: int
    """Cells that ran and of which a cost is known, perhaps in part."""
    cells_with_unpriced_calls: int
    mean_calls: float | None
    """Model calls per cell that ran and whose calls are known."""
    cells_with_calls: int
    """Cells that ran and whose calls are known."""
    mean_duration_s: float | None
    cells_tried_again: int
    superseded_attempts: int
    """Attempts that do not count, because a later one at the same cell does."""
    superseded_cost_usd: float | None
    """Of those with a known cost; None where none has one."""

    @property
    def resolved(self) -> int:
        """Cells that are resolved."""
        return self.states["resolved"]

    @property
    def rate(self) -> float:
        """Share of the planned cells that is resolved."""
        return self.resolved / self.planned

    @property
    def cost_per_instance(self) -> float | None:
        """USD per cell that ran."""
        return self.cost.per(self.started)

    @property
    def cost_per_resolved(self) -> float | None:
        """USD spent on all cells per resolved one; None when none is resolved."""
        return self.cost.per(self.resolved)


@dataclass(frozen=True)
class PairedTable:
    """Cells planned in both arms, by which arm resolved them.

    Raises ValueError for a count below 0.
    """

    both: int
    only_baseline: int
    only_candidate: int
    neither: int

    def __post_init__(self) -> None:
        """Refuse what cannot be counted."""
        if min(self.both, self.only_baseline, self.only_candidate, self.neither) < 0:
            raise ValueError(f"{self}: a count cannot be below 0")

    @property
    def pairs(self) -> int:
        """All of them."""
        return self.both + self.only_baseline + self.only_candidate + self.neither

    @property
    def difference(self) -> float:
        """Rate of the candidate minus rate of the baseline.

        Raises ValueError without pairs.
        """
        if not self.pairs:
            raise ValueError("a table without pairs has no difference")
        return (self.only_candidate - self.only_baseline) / self.pairs

    @property
    def discordant(self) -> int:
        """Pairs that only one of the two arms resolved."""
        return self.only_baseline + self.only_candidate


class PValues(NamedTuple):
    """Two-sided, of one test."""

    exact: float
    mid_p: float
    """Counts half of the outcome at hand."""


@dataclass(frozen=True)
class InstanceLeads:
    """By how many resolved cells the candidate leads, instance by instance."""

    instances: int
    """All of them, also where the arms resolve as many."""
    effective: float
    """Pairs that they are worth if the repeats of an instance say nothing new: as many as
    there are instances, or fewer where these have different numbers of pairs."""
    counts: Mapping[int, int]
    """Instances by lead, below 0 where the baseline resolves more; a lead of 0 is left out."""

    @property
    def differing(self) -> int:
        """Instances at which one arm resolves more cells than the other."""
        return sum(self.counts.values())


@dataclass(frozen=True)
class Comparison:
    """Two arms over the same cells."""

    baseline: str
    candidate: str
    role: Role
    """Declared beforehand as the primary one or in its family, chosen for this report, or one
    of the other pairs."""
    table: PairedTable
    leads: InstanceLeads
    interval: Interval
    """95 % interval of the difference, Newcombe's method 10 with each instance as one pair."""
    p_value: float
    """Exact two-sided sign-flip test over instances: McNemar's where cells do not repeat."""
    mid_p_value: float
    """Of the same test, less conservative."""
    adjusted_p_value: float | None
    """The decisive one after Holm's correction over all declared comparisons; None for a
    comparison that is not one of them."""
    priced_pairs: int
    """Pairs in which both cells ran and both costs are fully known."""
    baseline_cost_usd: float
    """Over the priced pairs."""
    candidate_cost_usd: float

    @property
    def has_repeats(self) -> bool:
        """True with more than one pair of cells at an instance."""
        return self.leads.instances != self.table.pairs

    @property
    def test(self) -> str:
        """Name of the test behind the p-values."""
        return "sign-flip" if self.has_repeats else "McNemar"

    @property
    def decisive(self) -> str:
        """Name of the p-value that headline, pair table and Holm's correction take."""
        return "mid-p sign-flip p" if self.has_repeats else "exact McNemar p"

    def decides(self, p_values: PValues) -> float:
        """The decisive one of two p-values of this pair.

        It is the exact one without repeats, as published tables have it. With repeats it is the
        mid-p-value: designs with repeats tend to have few instances, where the exact test rejects
        far less often than its level says (2 % instead of 5 % at 8 instances with 3 repeats).
        """
        return p_values.mid_p if self.has_repeats else p_values.exact

    @property
    def decisive_p_value(self) -> float:
        """That of the comparison itself."""
        return self.decides(PValues(self.p_value, self.mid_p_value))

    @property
    def cost_ratio(self) -> float | None:
        """Candidate's cost over baseline's on the priced pairs; None where that is undefined."""
        if not self.priced_pairs or not self.baseline_cost_usd:
            return None
        return self.candidate_cost_usd / self.baseline_cost_usd


@dataclass(frozen=True)
class NonInferiority:
    """The primary comparison against its margin."""

    candidate: str
    """The arm that has to be not worse, whichever way round the report shows the comparison."""
    margin: float
    """A share."""
    low: float
    """Lower limit of the 95 % interval of candidate minus baseline that the report leads with."""
    is_shown: bool


@dataclass(frozen=True)
class Amounts:
    """What two arms take of one thing, over the pairs in which both amounts are known."""

    pairs: int
    ratio: Estimate | None
    """Candidate's sum over baseline's."""
    difference: Estimate | None
    """Candidate's mean per cell minus baseline's."""


@dataclass(frozen=True)
class UnknownCosts:
    """Ratios of cost over all pairs that ran in both arms, with values put in for the costs that
    are not known. Ratios are candidate over baseline."""

    cells: int
    """Cells of which the cost is not fully known."""
    pairs: int
    at_mean: float
    """With each at the mean of its arm."""
    at_maximum: float
    """With each at the maximum of its arm."""
    bounds: Interval
    """With one arm's at what is known of them, at least 0, and the other's at its maximum; and
    the other way round."""


@dataclass(frozen=True)
class Resampled:
    """Two arms compared by resampling, and the sensitivity of their comparison."""

    baseline: str
    candidate: str
    resamples: int
    seed: int
    difference: Estimate | None
    """Of the resolution rates, by instance: an indication where few instances differ."""
    difference_by_repository: Estimate | None
    """The same number, resampled by repository: an indication where these are few or one of
    them holds most instances."""
    complete: PairedTable
    """Without the pairs of which a cell was lost."""
    complete_leads: InstanceLeads
    trusted: PairedTable
    """All pairs, where a suspect verdict counts as not resolved."""
    trusted_leads: InstanceLeads
    cost: Amounts
    """USD."""
    unknown_costs: UnknownCosts | None
    """None where all costs of the pairs that ran are known, or none of an arm is."""
    tokens: Amounts
    """Input and output."""
    duration: Amounts
    """Seconds."""
    baseline_cost_per_resolved: Estimate | None
    """USD over all cells of which the cost is fully known in both arms; so are the next two."""
    candidate_cost_per_resolved: Estimate | None
    ratio_of_costs_per_resolved: Estimate | None
    baseline_pass_at: Mapping[int, Estimate | None]
    """By k, from 1 to the repeats."""
    candidate_pass_at: Mapping[int, Estimate | None]


@dataclass(frozen=True)
class Cell:
    """One planned cell and the attempt that counts there."""

    arm: str
    instance_id: str
    repeat: int
    state: State
    attempt_id: str | None
    cost_usd: float | None
    is_cost_complete: bool | None
    """None where nothing ran."""
    model_calls: int | None
    outcome: str | None
    """The attempt's own."""
    detail: str | None
    reason: str | None
    """The grading's."""
    is_suspect: bool
    """Whether it counts as resolved and the audit doubts that."""
    audit_reasons: tuple[str, ...]
    failure: FailureClass | None
    """None where it is resolved."""


@dataclass(frozen=True)
class AuditFailure:
    """An audit that returned rows."""

    name: str
    meaning: str
    rows: int
    examples: tuple[str, ...]


@dataclass(frozen=True)
class Note:
    """Something a reader must know before using the numbers."""

    level: Literal["warning", "note"]
    text: str


@dataclass(frozen=True)
class Source:
    """Where the numbers come from. Times are UTC."""

    experiment: str
    dataset: str
    dataset_digest: str
    declaration_digest: str
    declared_at: datetime
    declarations: int
    """Different declarations under this name; the report uses the latest."""
    instances: int
    repeats: int
    environment: str
    plan: Plan
    """What was declared when the first result came; nothing else counts as declared."""
    later_plans: tuple[Plan, ...]
    """How it was changed when results existed, by time."""
    first_attempt: datetime | None
    last_activity: datetime | None
    """Start of the latest attempt or grading."""
    versions: Mapping[str, str]
    """Package to version; several versions are joined by commas."""


@dataclass(frozen=True)
class Report:
    """Everything that Markdown, page and terminal show, in order of importance."""

    source: Source
    audits: tuple[AuditFailure, ...]
    notes: tuple[Note, ...]
    arms: tuple[ArmSummary, ...]
    """In declared order."""
    comparisons: tuple[Comparison, ...]
    """Every pair of arms once; the primary or chosen one first."""
    resampled: Resampled | None
    """Of the first comparison; None where there is none."""
    non_inferiority: NonInferiority | None
    """None unless the first comparison is the primary one and has a margin."""
    cells: tuple[Cell, ...]
    """By instance, repeat, arm, all in declared order."""
    failures: Failures
    spending: tuple[Spending, ...]
    """In declared order of the arms."""
    trajectories: frozenset[str]
    """Attempts that the report refers to and of which the lake has the steps."""

    def arm(self, name: str) -> ArmSummary:
        """The arm of this name."""
        return next(arm for arm in self.arms if arm.name == name)
