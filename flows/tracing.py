"""The steps of an attempt: from the journal, or from the lake where that has them alone, as those
of imports and those that were pruned."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from agent.journal import Journal
from agent.models.protocol import ModelReply
from agent.steps import ActionResult, CutOff, Step, from_record
from agent.workspaces.protocol import CommandResult
from flows import showing
from flows.errors import UsageError
from flows.journals import existing_journal
from flows.lake import Lake, Row

POLL_S = 0.5


@dataclass(frozen=True)
class Shown:
    """One step as a trace shows it."""

    seq: int
    scope: str
    message: Row | None
    """The model's answer; None for what happened in the workspace."""
    cost_usd: float | None
    role: str = ""
    command: str = ""
    output: str = ""
    exit_code: int | None = None


def trace(prefix: str, lake_path: str | None, *, full: bool, follow: bool) -> None:
    """Show the steps of the attempt whose id begins with `prefix`, and what they cost so far.

    Raises:
        UsageError: no attempt, or more than one, begins so.
    """
    lake = Lake.existing(lake_path)
    journal = existing_journal(lake)
    known = {attempt.attempt_id for attempt in journal.find(prefix)} if journal else set()
    found = sorted(known | set(lake.units("attempts", f"{prefix}*")))
    if len(found) != 1:
        many = f"{len(found)} attempts begin with {prefix!r}" if found else f"no attempt {prefix!r}"
        raise UsageError(f"{many} in {lake.root}; `durabench status NAME --cells` lists them")
    pruned_at = journal.pruned_at(found[0]) if journal else None
    if pruned_at is not None:
        showing.say(
            f"the steps were pruned from the journal on {pruned_at:%Y-%m-%d}; these are those of "
            "the lake, long outputs shortened"
        )
    is_filed = found[0] not in known or pruned_at is not None
    steps = _filed(lake, found[0]) if is_filed else _journaled(journal, found[0], follow)
    spent, unpriced = 0.0, 0
    for step in steps:
        showing.step(step, full=full)
        spent += step.cost_usd or 0.0
        unpriced += step.message is not None and step.cost_usd is None
    _close(lake, journal, found[0], spent, unpriced)


def _close(
    lake: Lake, journal: Journal | None, attempt_id: str, spent: float, unpriced: int
) -> None:
    rows = lake.find("attempts", attempt_id)
    end = f"{rows[0]['outcome']} ({rows[0]['detail']})" if rows else "running or interrupted"
    account = journal.account(attempt_id) if journal else None
    billed = f", billed ${account.billed_usd:,.4f}" if account and account.calls_billed else ""
    unknown = f", {unpriced} calls of unknown price" if unpriced else ""
    showing.say(f"{attempt_id}: {end}; ${spent:,.4f}{unknown}{billed}")


def _journaled(journal: Journal | None, attempt_id: str, follow: bool) -> Iterator[Shown]:
    assert journal is not None
    seen: set[tuple[str, int]] = set()
    while True:
        ended = journal.outcome(attempt_id) is not None
        for recorded in sorted(journal.steps(attempt_id), key=lambda step: step.ordinal):
            place = (recorded.scope, recorded.seq)
            if recorded.result is not None and place not in seen:
                seen.add(place)
                yield shown(from_record(recorded))
        if ended or not follow:
            return
        time.sleep(POLL_S)


def shown(step: Step) -> Shown:
    """A step of a session, for showing."""
    place, asked = (step.seq, step.scope), command_of(step.request)
    match step.result:
        case ModelReply(message=message, usage=usage):
            return Shown(*place, message, usage.cost_usd, step.request.get("role", ""))
        case CommandResult(output=output, exit_code=exit_code):
            return Shown(*place, None, 0.0, "", asked, output, exit_code)
        case ActionResult(content=content):
            return Shown(*place, None, 0.0, "", asked, output_of(content))
        case CutOff(cut_off=what):
            return Shown(*place, None, None, "", asked, f"cut off: {what}")


def command_of(request: Row) -> str:
    """A request for work in the workspace in one line; empty for a model call."""
    if "action" in request:
        arguments = {name: value for name, value in request.items() if name != "action"}
        return f"{request['action']} {json.dumps(arguments, ensure_ascii=False)}"
    return str(request.get("command", ""))


def output_of(content: Any) -> str:
    """What an action has to show."""
    if content is None:
        return ""
    shown = content.get("output", content) if isinstance(content, dict) else content
    return shown if isinstance(shown, str) else json.dumps(shown, ensure_ascii=False, indent=1)


def _filed(lake: Lake, attempt_id: str) -> Iterator[Shown]:
    calls = {(call["scope"], call["seq"]): call for call in lake.find("llm_calls", attempt_id)}
    for row in sorted(lake.find("steps", attempt_id), key=_order):
        place, result = (row["seq"], row["scope"]), json.loads(row["result"])
        call = calls.get((row["scope"], row["seq"]))
        if call is not None:
            yield Shown(*place, result, call["cost_usd"], call["role"])
        else:
            asked = command_of(json.loads(row["request"]))
            cut_off = result.get("cut_off") if isinstance(result, dict) else None
            output = f"cut off: {cut_off}" if cut_off else output_of(result)
            yield Shown(*place, None, 0.0, "", asked, output, row["exit_code"])


def _order(row: Row) -> tuple[datetime, str, int]:
    """As steps were begun; imports know no times."""
    return row["started_at"] or datetime.min.replace(tzinfo=UTC), row["scope"], row["seq"]
