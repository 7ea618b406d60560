"""The four checks of every fault."""

import json
from dataclasses import dataclass
from itertools import pairwise

from agent.models.protocol import ModelReply
from agent.models.retry import RetryPolicy
from agent.session.steps import from_record
from flows.experiments.faults.faults import Survived
from flows.experiments.faults.keeping import FIRST_WAIT_S
from reports.format import UNKNOWN


@dataclass(frozen=True)
class Promise:
    """One check, and what it saw."""

    name: str
    holds: bool
    seen: str


def promises(shown: Survived) -> list[Promise]:
    """Return the four checks of a demonstration that has ended."""
    return [_stays_running(shown), _persisted(shown), _backoff(shown), _bought_once(shown)]


def _stays_running(shown: Survived) -> Promise:
    ended = json.loads(shown.after.outcome or "{}").get("status")
    is_open = shown.during.outcome is None
    return Promise(
        "stays running",
        is_open and ended == "submitted",
        f"{'open' if is_open else 'ended'} during the fault, {ended or 'still open'} after it",
    )


def _persisted(shown: Survived) -> Promise:
    before, after = shown.during.results, shown.after.results
    kept = [place for place in before if after.get(place) == before[place]]
    return Promise(
        "results persisted",
        0 < len(before) == len(kept),
        f"{len(kept)} of {len(before)} results from before the fault are unchanged, "
        f"{len(after) - len(before)} followed",
    )


def _backoff(shown: Survived) -> Promise:
    return _retries(shown) if shown.api.failed else _waits(shown)


def _retries(shown: Survived) -> Promise:
    """Check the retries of a call by its record and by what the model API saw."""
    failed = shown.api.failed
    asked_at = [each.at for each in shown.api.asked if each.turn == failed[0].turn]
    waits_s = [later - earlier for earlier, later in pairwise(asked_at)]
    replies = (from_record(step).result for step in shown.after.steps if step.kind == "model")
    recorded = [reply.retries for reply in replies if isinstance(reply, ModelReply)]
    policy = RetryPolicy()
    limits = (f"{policy.first_wait_s * 2**n:g}" for n in range(len(waits_s)))
    return Promise(
        "backoff visible",
        len(failed) == len(waits_s) == max(recorded),
        f"the record says {max(recorded)} retries, after {_seconds(waits_s)} "
        f"(random waits of up to {', '.join(limits)} s)",
    )


def _waits(shown: Survived) -> Promise:
    """Check the waits between workers, all of which are on record."""
    waits_s = [later.began_at - earlier.ended_at for earlier, later in pairwise(shown.workers)]
    are_long = all(wait >= FIRST_WAIT_S * 2**n for n, wait in enumerate(waits_s))
    return Promise(
        "backoff visible",
        bool(waits_s) and are_long and len(shown.tenures) == len(shown.workers),
        f"{len(shown.tenures)} workers on record, with waits of {_seconds(waits_s)} between them",
    )


def _bought_once(shown: Survived) -> Promise:
    sold, account = shown.api.answered, shown.account
    is_once = sorted(sold) == list(range(len(sold)))
    billed = UNKNOWN if account.billed_usd is None else f"${account.billed_usd:.6f}"
    return Promise(
        "no call bought twice",
        is_once and len(sold) == account.calls_billed == account.calls_credited,
        f"the model API sold {len(sold)} answers, {len(set(sold))} of them different; "
        f"{account.calls_billed} are billed, {billed}",
    )


def _seconds(values: list[float]) -> str:
    return ", ".join(f"{value:.1f}" for value in values) + " s"
