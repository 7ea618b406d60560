"""Types of a report. All shares are between 0 and 1, all costs are in USD."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Literal, NamedTuple

from reports.economics import Worth
from reports.estimates import Estimate, Imputed, InstanceLeads, Interval, PairedTable, Split
from reports.rendering.sections import ReportDocument

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
"""Every state of a planned cell, with its display name."""

WITHOUT_VERDICT: tuple[State, ...] = ("infrastructure", "stopped", "ungraded", "missing")
"""States of cells without a verdict. They count as not resolved."""

CONTROLS = ("gold", "null")
"""Agents that validate images and graders. What was not declared omits them."""

Role = Literal["primary", "declared", "chosen", "exploratory"]

Pair = tuple[str, str]
"""Baseline and candidate."""


@dataclass(frozen=True)
class AnalysisPlan:
    """The declared analysis."""

    primary: Pair | None = None
    margin: float | None = None
    """Largest loss, as a share, at which the primary candidate counts as not worse."""
    family: tuple[Pair, ...] = ()
    """The other declared comparisons."""
    declared_at: datetime | None = None
    """Time in UTC, or None if nothing was declared."""

    @property
    def comparisons(self) -> tuple[Pair, ...]:
        """All declared comparisons, the primary one first."""
        return ((self.primary,) if self.primary else ()) + self.family

    def direct(self, pair: Pair) -> Pair:
        """Return the pair in its declared direction, or as it is if it was not declared."""
        declared = (arms for arms in self.comparisons if set(arms) == set(pair))
        return next(declared, pair)

    def role_of(self, pair: Pair) -> Role:
        """Return the declared role of the comparison of these arms, in either direction."""
        if self.primary and set(self.primary) == set(pair):
            return "primary"
        if any(set(declared) == set(pair) for declared in self.family):
            return "declared"
        return "exploratory"

    def is_same_as(self, other: "AnalysisPlan") -> bool:
        """Return True if both plan the same analysis.

        The direction of the primary comparison matters only with a margin.
        """
        return self._content == other._content

    @property
    def _content(self) -> tuple[object, ...]:
        primary = frozenset(self.primary or ()) if self.margin is None else self.primary
        return primary, self.margin, frozenset(map(frozenset, self.family))


TOKENS = ("input", "cache_read", "cache_write", "output", "reasoning")
"""Kinds of tokens, in the order in which they are shown."""


@dataclass(frozen=True)
class Tokens:
    """Sums over the attempts that count and have known tokens. None if none have."""

    input: int | None
    """Input tokens, including cached ones."""
    cache_read: int | None
    cache_write: int | None
    output: int | None
    """Output tokens, including reasoning."""
    reasoning: int | None
    unknown_cells: int = 0
    """Cells that ran with an unknown number of input or output tokens."""
    lower_bounds: frozenset[str] = frozenset()
    """Names of the sums that may be too low, because some cells with such tokens are unknown."""

    @property
    def is_lower_bound(self) -> bool:
        """True if the true `total` may be higher."""
        return self.unknown_cells > 0

    @property
    def sums(self) -> tuple[tuple[int | None, bool], ...]:
        """Each sum, in the order of the fields, and True for a lower bound."""
        return tuple((getattr(self, kind), kind in self.lower_bounds) for kind in TOKENS)

    @property
    def total(self) -> int | None:
        """Input plus output."""
        return None if None in (self.input, self.output) else (self.input or 0) + (self.output or 0)


@dataclass(frozen=True)
class Cost:
    """Cost of an arm's counted attempts."""

    usd: float | None
    """Sum of the known costs, or None if none is known."""
    incomplete_cells: int
    """Cells that ran without a fully known cost. If there are any, `usd` is a lower bound."""
    unpriced_calls: int
    """Calls without a known price."""
    is_unmetered: bool
    """True if every cost is 0 and a cell is unmetered. Then no cost is known."""
    unmetered_cells: int = 0
    """Cells with a cost of 0 that are not known to have made no call. Their cost is unknown."""

    @property
    def is_lower_bound(self) -> bool:
        """True if the true cost may be higher than `usd`."""
        return self.incomplete_cells > 0

    def per(self, count: int) -> float | None:
        """Return `usd` divided by `count`, or None if the cost is unknown or the count is 0."""
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
    """Planned cells: instances × repeats. The denominator of all rates."""
    started: int
    """Cells with at least one attempt."""
    states: Mapping[State, int]
    """Number of planned cells by state. They add up to `planned`."""
    suspect: int
    """Resolved cells that the audit doubts."""
    unaudited: int
    """Resolved cells without an audit."""
    interval: Interval
    """95 % Wilson interval of `rate`, with each instance as one trial."""
    tokens: Tokens
    cost: Cost
    cells_with_cost: int
    """Cells that ran and have a known cost, at least in part."""
    cells_with_unpriced_calls: int
    mean_calls: float | None
    """Mean number of model calls, over `cells_with_calls`."""
    cells_with_calls: int
    """Cells that ran and have a known number of calls."""
    unanswered: int
    """Cells that ended, or were given up, because the model answered no call."""
    unanswered_because: str | None
    """The reason that most of these cells give; None without one."""
    mean_duration_s: float | None
    cells_tried_again: int
    superseded_attempts: int
    """Attempts that do not count because a later attempt at the same cell does."""
    superseded_cost_usd: float | None
    """Known cost of superseded attempts, or None if none has a known cost."""
    superseded_incomplete: int
    """Superseded attempts without a fully known cost. The known cost is then a lower bound."""
    derived_from: str | None
    """The arm whose attempts share their steps of the same inputs. None for most arms."""

    @property
    def is_control(self) -> bool:
        """True if the agent only validates images and graders."""
        return self.agent in CONTROLS

    @property
    def has_answers(self) -> bool:
        """False if cells ended without an answer of the model, and no cell had one."""
        return not self.unanswered or bool(self.mean_calls)

    @property
    def resolved(self) -> int:
        """Number of resolved cells."""
        return self.states["resolved"]

    @property
    def rate(self) -> float:
        """Resolved share of the planned cells."""
        return self.resolved / self.planned

    @property
    def cost_per_instance(self) -> float | None:
        """USD per cell that ran."""
        return self.cost.per(self.started)

    @property
    def cost_per_resolved(self) -> float | None:
        """USD spent on all cells per resolved cell, or None if none is resolved."""
        return self.cost.per(self.resolved)


@dataclass(frozen=True)
class Comparison:
    """Two arms over the same cells."""

    baseline: str
    candidate: str
    role: Role
    """Declared in advance as the primary comparison or in its family, chosen for this report, or
    exploratory."""
    table: PairedTable
    leads: InstanceLeads
    interval: Interval
    """95 % interval of the difference: the differences that the test does not reject at 5 %."""
    p_value: float
    """Two-sided p-value of no difference, by the same test."""
    priced_pairs: int
    """Pairs in which both cells ran and both costs are fully known."""
    baseline_cost_usd: float
    """Sum over the priced pairs."""
    candidate_cost_usd: float
    adjusted_p_value: float | None = None
    """The p-value after Holm's correction over all declared comparisons. None for an undeclared
    comparison."""
    holm_p_value: float | None = None
    """The p-value after Holm's correction over all pairs of arms. None with a control."""
    false_discovery_p_value: float | None = None
    """The p-value after Benjamini and Hochberg's correction over the same pairs."""

    @property
    def has_repeats(self) -> bool:
        """True if an instance has more than one pair of cells."""
        return self.leads.has_repeats

    @property
    def cost_ratio(self) -> float | None:
        """Candidate's cost over baseline's on the priced pairs, or None if undefined."""
        if not self.priced_pairs or not self.baseline_cost_usd:
            return None
        return self.candidate_cost_usd / self.baseline_cost_usd


@dataclass(frozen=True)
class NonInferiority:
    """The primary comparison tested against its margin."""

    candidate: str
    """The arm that must not be worse, in whichever direction the report shows the comparison."""
    margin: float
    """The declared margin, as a share."""
    low: float
    """Lower limit of the leading 95 % interval of candidate minus baseline."""
    is_shown: bool


@dataclass(frozen=True)
class Amounts:
    """Two arms' use of one resource, over the pairs in which both amounts are known."""

    pairs: int
    ratio: Estimate | None
    """Candidate's sum divided by baseline's."""
    difference: Estimate | None
    """Candidate's mean per cell minus baseline's."""


@dataclass(frozen=True)
class Costs:
    """The costs of two arms on the pairs in which both are fully known."""

    ratio: Estimate | None
    """Candidate's sum divided by baseline's."""
    difference: Estimate | None
    """Candidate's mean per cell minus baseline's."""
    baseline_per_resolved: Estimate | None
    candidate_per_resolved: Estimate | None
    ratio_per_resolved: Estimate | None


@dataclass(frozen=True)
class PairUnknowns:
    """Numbers of two arms with unknown costs replaced, over all pairs that ran in both arms."""

    cells: int
    """Number of cells without a fully known cost."""
    pairs: int
    ratio: Imputed
    """Candidate's cost divided by baseline's."""
    difference: Imputed
    """Candidate's mean cost per cell minus baseline's."""
    baseline_per_resolved: Imputed | None
    """None if the arm resolves none of these cells."""
    candidate_per_resolved: Imputed | None
    ratio_per_resolved: Imputed | None


@dataclass(frozen=True)
class Resampled:
    """A comparison of two arms by resampling, with its sensitivity analyses."""

    baseline: str
    candidate: str
    resamples: int
    seed: int
    difference_by_repository: Estimate | None
    """Difference of the resolution rates, resampled by repository. Only an indication if there are
    few repositories or one of them holds most instances. None if a repository is not known, as the
    estimates of `costs_by_repository` are then."""
    costs_by_repository: Costs
    """Costs of the priced pairs, resampled by repository."""
    pairs_run: int
    """Number of pairs with an attempt at both cells."""
    complete: PairedTable
    """The pairs in which both cells have a verdict."""
    complete_leads: InstanceLeads
    trusted: PairedTable
    """All pairs, with suspect verdicts counted as not resolved."""
    trusted_leads: InstanceLeads
    cost: Amounts
    """In USD."""
    unknown_costs: PairUnknowns | None
    """None if all costs of the pairs that ran are known, or if an arm has no known cost above
    0."""
    tokens: Amounts
    """Input plus output tokens."""
    duration: Amounts
    """In seconds."""
    baseline_cost_per_resolved: Estimate | None
    """USD, over all cells with a fully known cost in both arms. The next two fields use the same
    cells."""
    candidate_cost_per_resolved: Estimate | None
    ratio_of_costs_per_resolved: Estimate | None


FailureClass = Literal[
    "fail_to_pass",
    "pass_to_pass",
    "both",
    "untold",
    "no_patch",
    "unanswered",
    "starved",
    "empty",
    "patch_failed",
    "timeout",
    "ungraded",
    "stopped",
    "throttled",
    "infrastructure",
    "missing",
]

FAILURES: Mapping[FailureClass, str] = {
    "fail_to_pass": "FAIL_TO_PASS tests still fail",
    "pass_to_pass": "PASS_TO_PASS tests broken",
    "both": "both: still failing and broken",
    "untold": "not resolved, tests not recorded",
    "no_patch": "no patch",
    "unanswered": "no answer of the model",
    "starved": "no patch, answers cut at the output limit",
    "empty": "the model's answers were empty",
    "patch_failed": "patch does not apply",
    "timeout": "tests timed out",
    "ungraded": "not graded",
    "stopped": "stopped before the end",
    "throttled": "refused by the provider's rate limit",
    "infrastructure": "infrastructure",
    "missing": "never run",
}
"""Every reason for a planned cell not to be resolved, with its display name."""


class ReportCell(NamedTuple):
    """One planned cell and the attempt that counts for it.

    A report may hold many of them, so they are tuples.
    """

    arm: str
    instance_id: str
    repeat: int
    state: State
    attempt_id: str | None
    cost_usd: float | None
    is_cost_complete: bool | None
    """None if nothing ran."""
    model_calls: int | None
    outcome: str | None
    """Outcome of the attempt."""
    detail: str | None
    reason: str | None
    """Reason of the grading's outcome."""
    is_suspect: bool
    """True if the cell counts as resolved and the audit doubts that."""
    audit_reasons: tuple[str, ...]
    failure: FailureClass | None
    """None if the cell is resolved."""


@dataclass(frozen=True)
class ContainerResources:
    """Limits of containers; None where an older release did not record them. 1 GB is 2^30 bytes."""

    memory_gb: float | None
    cpus: float | None
    pids: int | None
    disk_gb: float | None


@dataclass(frozen=True)
class Provenance:
    """Provenance of the numbers. Times are UTC."""

    experiment: str
    dataset: str
    dataset_digest: str
    declaration_digest: str
    declared_at: datetime
    declarations: int
    """Number of different declarations under this name. The report uses the latest."""
    instances: int
    repeats: int
    environment: str
    resources: tuple[ContainerResources, ...]
    """The limits that containers had. More than one set if rows ask for more, or if they changed.
    Empty without containers."""
    unequal_resources: int
    """Instances whose attempts, or whose gradings, had different limits."""
    flaky: tuple[str, ...]
    """Instances whose reference patch is resolved in some repeats only."""
    plan: AnalysisPlan
    """The plan declared before the first result. Nothing else counts as declared."""
    later_plans: tuple[AnalysisPlan, ...]
    """Changes of the plan after results existed, by time."""
    first_attempt: datetime | None
    last_activity: datetime | None
    """Start of the latest attempt or grading."""
    versions: Mapping[str, str]
    """Version by package. Several versions are joined by commas."""


@dataclass(frozen=True)
class FailureExample:
    """One cell that failed in a given way."""

    kind: FailureClass
    arm: str
    instance_id: str
    repeat: int
    attempt_id: str


@dataclass(frozen=True, kw_only=True)
class Report(ReportDocument):
    """The facts that several questions share, and the answers."""

    kind: str = "report"
    source: Provenance
    arms: tuple[ArmSummary, ...]
    """Arms in declared order."""
    comparisons: tuple[Comparison, ...]
    """Every pair of arms once, the primary or chosen pair first."""
    worth: Worth
    """The arms by cost and resolution together."""
    non_inferiority: NonInferiority | None
    """Test against the margin. None unless the first comparison is primary and has a margin."""
    cutoffs: Mapping[str, date]
    """Last days of training data by model, as given."""
    resampled: Resampled | None = None
    """Resampling of the first comparison, or None without one."""
    split: Split | None = None
    """Variance of the paired difference at a cell of the first comparison, in parts. None without
    repeats, without a comparison or if no pair of cells differs."""
    cells: tuple[ReportCell, ...] = ()
    """The cells that may be shown one by one, by instance, repeat and arm in declared order: the
    first ones, the cells of the leading pair, and the cells that need attention."""
    failures: tuple[FailureExample, ...] = ()
    """A few examples of each class of failure."""
    trajectories: frozenset[str] = frozenset()
    """Ids of attempts that the report names and that have steps in the lake."""

    def arm(self, name: str) -> ArmSummary:
        """Return the arm of this name."""
        return next(arm for arm in self.arms if arm.name == name)
