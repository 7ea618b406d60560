"""What goes into the journal and what comes out of it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal


@dataclass(frozen=True)
class Attempt:
    """One try at a cell of an experiment."""

    attempt_id: str
    experiment: str
    arm: str
    instance_id: str
    repeat: int
    spec: str
    """JSON text of the caller's own; whatever would make it another attempt belongs here."""
    parent_id: str | None = None
    """The attempt that this one was forked from, before the step named by the next two."""
    fork_scope: str | None = None
    fork_seq: int | None = None


@dataclass(frozen=True)
class Claim:
    """The lake that an experiment of a journal belongs to."""

    lake_id: str
    lake: str
    """Where it was when it claimed the experiment, for people."""


@dataclass(frozen=True)
class Lease:
    """The right to write an attempt; void once the attempt's epoch has moved on."""

    attempt_id: str
    epoch: int
    worker: str


@dataclass(frozen=True)
class RecordedStep:
    """One step as it was written down."""

    scope: str
    seq: int
    kind: str
    digest: str
    request: bytes
    result: bytes | None
    """None for an intent that nothing came of yet."""
    cost_usd: float | None
    """None where it is unknown or the step is an intent."""
    started_at: datetime
    """By the journal's clock, UTC."""
    duration_s: float | None
    tree: str | None
    """The work tree after it, in the caller's own words; None where it did not change."""
    ordinal: int = 0
    """Place in the order in which the attempt's steps were begun, over all scopes."""
    copied: bool = False
    """Whether a fork took it over from its parent."""


@dataclass(frozen=True)
class Limit:
    """An upper bound on what may be sent, in USD, in calls, or both."""

    kind: Literal["attempt", "arm", "experiment"]
    name: str
    """An attempt's id, `experiment/arm`, or an experiment's name."""
    usd: float | None
    calls: int | None


@dataclass(frozen=True)
class Reservation:
    """The most that a call can cost, and the limits that it has to fit under."""

    usd: float
    limits: tuple[Limit, ...]


@dataclass(frozen=True)
class Account:
    """What an attempt has cost."""

    billed_usd: float
    """Everything ever sent: settled calls at cost, lost ones and those in flight at their
    reservation."""
    credited_usd: float
    """The calls among the attempt's recorded steps, those copied by a fork included; none of
    those that were pruned."""
    calls_billed: int
    calls_credited: int
    unpriced_calls: int
    """Credited calls whose cost is unknown; they count at their reservation."""


@dataclass(frozen=True)
class Progress:
    """How far an attempt is, and what it has cost. Times are by the journal's clock, UTC."""

    attempt: Attempt
    has_ended: bool
    is_pruned: bool
    worker: str | None
    """The last holder of its lease; None if it was never held."""
    lease_left_s: float | None
    """Seconds until the lease runs out, negative if it has; None if it was given back or never
    held."""
    now: datetime
    first_step_at: datetime | None
    """Start of its first step; None if it has none of its own."""
    last_step_at: datetime | None
    """End of its last step, or start of one that has no result yet."""
    steps: int
    """Those with a result, like the next three, and those copied by a fork among them."""
    calls: int
    cost_usd: float
    """Of the calls whose cost is known."""
    unpriced_calls: int
    billed_usd: float
    """As in `Account`."""
    unanswered_calls: int
    """Calls in flight, and those that were lost in a crash."""
    unanswered_usd: float
    """What is reserved for them, the part of `billed_usd` that may never have been spent."""


@dataclass(frozen=True)
class Holding:
    """What the journal keeps of one attempt."""

    attempt: Attempt
    has_ended: bool
    is_pruned: bool
    is_held: bool
    steps: int
    """Those with a result."""
    size_bytes: int
    """Of the requests and results of all steps, as they lie in the database."""
    idle_s: float | None
    """Since its last step; None if it has none."""


@dataclass(frozen=True)
class References:
    """What the steps of a journal refer to in content-addressed storage."""

    names: frozenset[str]
    """The names of everything referred to; other words may be among them."""
    turns: int | None
    """How often attempts had been taken until then; None if somebody may be writing to one."""
