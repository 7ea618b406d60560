"""Input and output types of the journal."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from agent.errors import place


@dataclass(frozen=True)
class Attempt:
    """One try at a cell of an experiment."""

    attempt_id: str
    experiment: str
    arm: str
    instance_id: str
    repeat: int
    spec: str
    """JSON text defined by the caller, with everything that makes it another attempt."""
    parent_id: str | None = None
    """The attempt that this one was forked from, before the step named by the next two fields."""
    fork_scope: str | None = None
    fork_seq: int | None = None
    reuse: str | None = None
    """JSON text defined by the caller, if each step of the parent answers where its inputs are the
    same. None for a fork that copies the steps before one of the parent's steps."""


@dataclass(frozen=True)
class Claim:
    """The lake that an experiment of a journal belongs to."""

    lake_id: str
    lake: str
    """Location of the lake when it claimed the experiment, for display."""


@dataclass(frozen=True)
class Lease:
    """The right to write an attempt. It is void once the attempt has a later epoch."""

    attempt_id: str
    epoch: int
    worker: str


@dataclass(frozen=True)
class TreeRef:
    """A work tree that can be restored. The journal and requests contain its text form."""

    tree: str
    """Git's id of the tree; empty for the base commit."""
    delta: str
    """Name of the stored delta from the base commit; empty for the base commit."""
    image: str = ""
    """Image that the workspace was saved as, if the tree is restored in that image."""

    def __str__(self) -> str:
        return " ".join(filter(None, (self.tree, self.delta, self.image)))

    @classmethod
    def parse(cls, text: str) -> "TreeRef":
        """Return the reference whose text form is `text`."""
        tree, delta, *image = text.split() or ("", "")
        return cls(tree, delta, *image)


@dataclass(frozen=True)
class Inputs:
    """The inputs of a step besides its request."""

    began_at: TreeRef | None = None
    """The work tree at its start; None in a journal of an earlier release."""
    digest: str | None = None
    """Digest of all else that decides the result; None if that is unknown."""


UNKNOWN_INPUTS = Inputs()


StepKind = Literal["model", "command", "action", "event", "limit"]
"""Kinds of steps.

`action` is several contacts with the workspace under one name, such as a tool. `event` is a reading
that touches no workspace, such as the order in which concurrent work ended. `limit` is a step
without a result, because time had run out or the conversation was too long.
"""


@dataclass(frozen=True)
class RecordedStep:
    """One step as recorded."""

    scope: str
    seq: int
    kind: StepKind
    digest: str
    request: bytes
    result: bytes | None
    """None for an intent without a result."""
    cost_usd: float | None
    """None if the cost is unknown or the step is an intent."""
    started_at: datetime
    """By the journal's clock, UTC."""
    duration_s: float | None
    tree: TreeRef | None
    """The work tree after the step; None if it did not change."""
    ordinal: int = 0
    """Position in the order in which the attempt's steps were started, over all scopes."""
    copied: bool = False
    """True if a fork copied the step from its parent."""
    bench: str | None = None
    """The branch in whose workspace it worked; None if in none, or unknown."""
    inputs: Inputs = UNKNOWN_INPUTS

    @property
    def place(self) -> str:
        """Scope and number, as `trace` shows them."""
        return place(self.scope, self.seq)


@dataclass(frozen=True)
class NewStep:
    """A step without its result."""

    scope: str
    seq: int
    kind: StepKind
    digest: str
    request: bytes
    bench: str | None = None
    """The branch in whose workspace it works; None if it works in none."""
    inputs: Inputs = UNKNOWN_INPUTS


@dataclass(frozen=True)
class FreeStep:
    """A step that cost nothing, after it happened."""

    step: NewStep
    result: bytes
    duration_s: float
    tree: TreeRef | None


@dataclass(frozen=True)
class AdoptedStep:
    """A step with the result of another attempt at the same position. It is not billed again."""

    parent_id: str
    scope: str
    seq: int
    inputs: Inputs
    result: bytes | None = None
    """Replaces the recorded result."""


EndedStep = FreeStep | AdoptedStep
"""A step that is over and that this attempt does not pay for."""


@dataclass(frozen=True)
class Tenure:
    """The period in which a worker held an attempt."""

    worker: str
    began_at: datetime
    ended_at: datetime | None
    """None if the worker has not given the attempt back: it holds it, or died."""
    steps: int
    """Number of its steps that are on record."""
    first_ordinal: int | None
    """Ordinal of the first of them; None without any."""


@dataclass(frozen=True)
class Limit:
    """An upper bound on the calls that may be sent, in USD, in calls, or both."""

    kind: Literal["attempt", "arm", "experiment"]
    name: str
    """An attempt's id, `experiment/arm`, or an experiment's name."""
    usd: float | None
    calls: int | None


@dataclass(frozen=True)
class Reservation:
    """The highest possible cost of a call, and the limits that it must not exceed."""

    usd: float | None
    """None if it is unknown."""
    limits: tuple[Limit, ...]


@dataclass(frozen=True)
class Account:
    """The cost of an attempt."""

    billed_usd: float | None
    """All calls ever sent, lost ones and those in flight at their reservation; None if unknown."""
    credited_usd: float | None
    """The calls among the attempt's recorded steps, also copied ones; None if unknown."""
    calls_billed: int
    calls_credited: int
    unpriced_calls: int
    """Credited calls whose cost is unknown. They count at their reservation, if that is known."""


@dataclass(frozen=True)
class Progress:
    """The progress of an attempt and its cost. Times are by the journal's clock, UTC."""

    attempt: Attempt
    has_ended: bool
    is_pruned: bool
    worker: str | None
    """The last holder of the lease; None if it was never held."""
    lease_left_s: float | None
    """Seconds until the lease expires, or negative; None if it was released or never held."""
    now: datetime
    first_step_at: datetime | None
    """Start of the attempt's first own step; None if it has no own step."""
    last_step_at: datetime | None
    """End of the last step, or its start while it has no result yet."""
    open_call_at: datetime | None
    """Start of the last call without an answer; None if each has one."""
    steps: int
    """Steps with a result, with copied ones, as in the next three fields."""
    calls: int
    cost_usd: float
    """Cost of the calls whose cost is known."""
    unpriced_calls: int
    billed_usd: float | None
    """As in `Account`."""
    unbilled_calls: int
    """Calls of unknown price. `billed_usd` is None if there are any."""
    unanswered_calls: int
    """Calls in flight, and calls that were lost in a crash."""
    unanswered_usd: float | None
    """The part of `billed_usd` for these calls, perhaps never spent; None if it is unknown."""
    retry: str | None = None
    """The failed request, if the attempt waits before it sends it again."""
    retry_in_s: float | None = None
    """Seconds until it is sent; negative while it is being sent."""


@dataclass(frozen=True)
class Holding:
    """The data that the journal keeps of one attempt."""

    attempt: Attempt
    has_ended: bool
    is_pruned: bool
    is_held: bool
    steps: int
    """Steps with a result."""
    size_bytes: int
    """Stored size of the requests and results of all steps."""
    idle_s: float | None
    """Seconds since the last step; None if there is none."""


@dataclass(frozen=True)
class References:
    """The references of a journal's steps to content-addressed storage."""

    names: frozenset[str]
    """All referenced names; other words may be among them."""
    turns: int | None
    """Number of times that attempts had been acquired by then; None during possible writes."""
