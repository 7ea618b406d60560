"""Fork an attempt at any step: the paid prefix is kept, the rest is done again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from agent.journal import Attempt, Journal, RecordedStep
from eval.selection import Selection
from flows.display.errors import UsageError
from flows.experiments.declaration import Experiment, from_record, in_one_line, parse
from flows.experiments.unfinished import OwnAttempt, find_or_start
from flows.storage.job_names import resolve_attempt
from flows.storage.journals import existing_journal, open_journal
from flows.storage.lake import Lake
from reports.format import plural, usd_of_calls


@dataclass(frozen=True)
class ForkRequest:
    """A fork that can be made."""

    lake: Lake
    parent: Attempt
    scope: str
    seq: int
    """The first step that is not kept, in its scope."""
    child: Experiment
    steps: Sequence[RecordedStep]
    """The parent's, in the order in which they started."""

    def forecast(self) -> str:
        """Return how many of the parent's steps are reused, and which cost is new."""
        places = [(step.scope, step.seq) for step in self.steps]
        return forecast(self.steps, places.index((self.scope, self.seq)))


def check(
    prefix: str,
    step: str,
    lake_path: str | None,
    *,
    model: dict[str, object] | None = None,
    options: dict[str, object] | None = None,
) -> ForkRequest:
    """Return the request to keep the steps before `step` of an attempt. Write nothing.

    The id of the attempt starts with `prefix`. `step` is a number, preceded by the path of its
    scope if it has one, such as `12` or `step-2/candidate-1/3`.

    `model` answers the remaining calls. `options` replaces the arm's options of the same names. If
    either is None, the parent's value is kept.

    Raises:
        UsageError: the attempt, step or experiment does not exist, or the steps were pruned.
    """
    lake, journal, parent = parent_of(prefix, lake_path)
    scope, _, number = step.rpartition("/")
    steps = sorted(journal.steps(parent.attempt_id), key=lambda recorded: recorded.ordinal)
    if (scope, number) not in {(recorded.scope, str(recorded.seq)) for recorded in steps}:
        raise UsageError(
            f"attempt {parent.attempt_id} has no step {step}; `durabench trace` lists them"
        )
    child = make_child(load_declaration(lake, parent), parent, model, options)
    return ForkRequest(lake, parent, scope, int(number), child, steps)


def forecast(steps: Sequence[RecordedStep], first: int) -> str:
    """Return how many steps a fork reuses, and the number and cost of the calls that it may buy.

    `steps` are the parent's, in the order in which they started, and all before the index `first`
    are reused.
    """
    calls = [step for step in steps if step.kind == "model"]
    later = [step for step in steps[first:] if step.kind == "model"]
    return (
        f"the fork buys at most {len(later)} of {plural(len(calls), 'call')} again, "
        f"{sum_costs(later)} of {sum_costs(calls)}, and whatever it adds; "
        f"reuses at least {first} of {plural(len(steps), 'step')}"
    )


def sum_costs(calls: Sequence[RecordedStep]) -> str:
    """Return the cost of calls as a text."""
    return usd_of_calls(call.cost_usd for call in calls)


def parent_of(prefix: str, lake_path: str | None) -> tuple[Lake, Journal, Attempt]:
    """Return the attempt whose id starts with `prefix`, which can be forked, with its journal.

    Raises:
        UsageError: see `find_attempt`, or the attempt is running.
    """
    lake, journal, parent = find_attempt(prefix, lake_path)
    if journal.holder(parent.attempt_id):
        raise UsageError(f"attempt {parent.attempt_id} is still running; stop it, or wait")
    return lake, journal, parent


def find_attempt(prefix: str, lake_path: str | None) -> tuple[Lake, Journal, Attempt]:
    """Return the attempt whose id starts with `prefix`, if its steps are in the journal.

    Raises:
        UsageError: no attempt or more than one has this prefix, or it was pruned.
    """
    lake = Lake.existing(lake_path)
    journal, prefix = existing_journal(lake), resolve_attempt(lake, prefix)
    parents = journal.find(prefix) if journal else []
    if journal is None or len(parents) != 1:
        number = plural(len(parents), "attempt")
        raise UsageError(f"the id {prefix!r} fits {number} in {lake.root}: give one")
    [parent] = parents
    if (pruned_at := journal.pruned_at(parent.attempt_id)) is not None:
        raise UsageError(
            f"the steps of attempt {parent.attempt_id} were pruned on {pruned_at:%Y-%m-%d}: it "
            "cannot be forked or drawn"
        )
    return lake, journal, parent


def fork(request: ForkRequest) -> tuple[OwnAttempt, int]:
    """Copy the steps that a fork keeps to its attempt, which is credited for their calls.

    Return the attempt and the number of these steps. The same fork that has not finished is
    continued.

    Raises:
        DatasetError, UsageError: the instance cannot be prepared.
    """
    parent, lake = request.parent, request.lake
    own = find_or_start(
        request.child,
        parent.arm,
        str(lake.root),
        parent_id=parent.attempt_id,
        fork_scope=request.scope,
        fork_seq=request.seq,
    )
    journal = open_journal(lake)
    return own, journal.fork(parent.attempt_id, own.attempt, request.scope, request.seq)


def load_declaration(lake: Lake, parent: Attempt) -> Experiment:
    """Return the experiment of an attempt as it was declared last.

    Raises:
        UsageError: the lake has no declaration of it, or an outdated one.
    """
    experiment, arm = parent.experiment, parent.arm
    units = lake.units("experiments", "*", experiment, arm)
    if not units:
        raise UsageError(f"the lake {lake.root} has no declaration of experiment {experiment!r}")
    [row] = lake.read("experiments", experiment, arm, units[-1])
    try:
        return from_record(row["declaration"])
    except ValidationError as error:
        raise UsageError(f"experiment {experiment!r} as declared: {in_one_line(error)}") from None


def get_declared_options(options: BaseModel) -> dict[str, Any]:
    """Return the options that differ from their defaults, and the preset of a profile.

    A default that was written out can come back as 120.0 in place of 120, which would change a
    prompt that states it.
    """
    changed = options.model_dump(mode="json", exclude_defaults=True)
    profile = getattr(options, "profile", None)
    if isinstance(profile, BaseModel):
        preset = getattr(profile, "preset", "lean")
        changed["profile"] = {**changed.get("profile", {}), "preset": preset}
    return changed


def make_child(
    original: Experiment,
    parent: Attempt,
    model: object | None,
    options: Mapping[str, object] | None,
) -> Experiment:
    """Return the parent's experiment with one arm and one instance."""
    content = original.model_dump(mode="json")
    [arm] = [declared for declared in content["arms"] if declared["name"] == parent.arm]
    arm["from"] = None
    arm["model"] = model or arm["model"]
    arm["options"] = {**get_declared_options(original.arm(parent.arm).options), **(options or {})}
    changes = {
        "name": f"{parent.experiment}-fork",
        "select": Selection(ids=[parent.instance_id]).model_dump(),
        "arms": [arm],
        "repeats": 1,
        "primary": None,
        "family": [],
    }
    return parse({**content, **changes}, "fork")
