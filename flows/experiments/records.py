"""Convert attempts, steps and gradings to lake rows."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from agent.arms.command import SCOPE
from agent.journal import Attempt
from agent.models.protocol import ModelReply, Usage
from agent.models.spec import LiteLLMSpec, ModelSpec, SimulatedSpec
from agent.session.reuse import Rules
from agent.session.steps import ActionResult, CutOff, Result, Step
from agent.shortening import shorten_middle
from agent.types import Outcome
from agent.workspaces import CommandResult
from eval.audit import Audit, AuditedVerdict
from eval.types import Evaluation
from flows.experiments import resources
from flows.experiments.cell_state import Interruption
from flows.experiments.cells import Cell, Submission
from flows.experiments.keys import agent_spec, attempt_id_of
from flows.storage.files import encode_patch, make_readable
from flows.storage.lake import Lake, Row, versions

SHOWN_CHARACTERS = 64_000
"""Characters of one output that the `steps` table keeps, half from each end."""

LOG_TAIL_CHARACTERS = 4_000

NO_REPORT: Row = {
    "workflow_status": None,
    "agent_verdict": None,
    "reproduced": None,
    "prediction_emitted": None,
    "report": None,
}
"""These columns of an attempt whose arm reports nothing about itself."""

UNKNOWN_TOKENS: Row = {name: None for name in asdict(Usage()) if name != "cost_usd"}
"""Token columns if the numbers are unknown; unknown is never 0."""

UNKNOWN_USAGE: Row = {
    "model_calls": None,
    "unpriced_calls": None,
    **UNKNOWN_TOKENS,
    "cost_usd": None,
}
"""Usage columns of an attempt if its usage is unknown."""


@dataclass(frozen=True)
class AttemptRecord:
    """One attempt, ended or interrupted."""

    attempt_id: str
    cell: Cell
    outcome: Outcome | Interruption
    steps: list[Step]
    billed_usd: float | None
    """Cost of everything ever sent; calls whose answer was lost count at their reservation.

    None if nothing is known of the price of a call.
    """
    started_at: datetime
    """Start of its first run."""
    duration_s: float
    """Time during which a step of any of its runs, or one of its base, was running."""
    base_attempt_id: str | None = None
    """The attempt that it was forked or derived from."""
    copied: frozenset[tuple[str, int]] = frozenset()
    """Scope and number of the steps that it has from that attempt."""
    git_removed: tuple[str, ...] = ()


def attempt_row(record: AttemptRecord) -> Row:
    """Return the row of `attempts`."""
    cell = record.cell
    model = cell.experiment.model_of(cell.arm)
    calls = list(credited(record.outcome, record.steps))
    return {
        **_cell_columns(record.attempt_id, cell.instance.instance_id, cell.repeat),
        "repo": cell.instance.repo,
        "difficulty": cell.instance.row.get("difficulty"),
        "instance_created_at": make_readable(str(cell.instance.row.get("created_at") or ""))
        or None,
        "agent": cell.arm.agent,
        "model": model_name(model) if model else "none",
        "provider": model.provider if model else "none",
        "environment": cell.place.environment,
        "outcome": record.outcome.status,
        "detail": make_readable(record.outcome.detail),
        **_report_columns(record.outcome),
        "started_at": record.started_at,
        "duration_s": record.duration_s,
        "order_in_instance": cell.order_in_instance,
        **usage_totals([reply.usage for _, reply in calls]),
        "billed_usd": record.billed_usd,
        **({"cost_usd": None, "billed_usd": None} if _is_unmetered(record) else {}),
        **sharing_columns(
            record.base_attempt_id,
            [reply.usage for step, reply in calls if (step.scope, step.seq) in record.copied],
        ),
        **program_columns(record.outcome),
        "seed": cell.seed,
        "image": cell.instance.image if cell.place.environment == "docker" else "",
        "image_digest": cell.place.image_digest,
        "git_removed": [make_readable(each) for each in record.git_removed],
        **resources.columns(cell.place.limits(cell.instance)),
        "versions": json.dumps(versions()),
    }


def _report_columns(outcome: Outcome | Interruption) -> Row:
    """Return the columns of an arm's self-report: four separate statements and the full report."""
    report = outcome.report if isinstance(outcome, Outcome) else None
    if report is None:
        return NO_REPORT
    stated = {name: report.get(name) for name in NO_REPORT}
    return {**stated, "report": make_readable(json.dumps(report, ensure_ascii=False))}


def _is_unmetered(record: AttemptRecord) -> bool:
    """Return True for a program without a metered call: it is not free, its cost is unknown."""
    is_program = record.cell.arm.agent == "command"
    return is_program and not any(True for _ in credited(record.outcome, record.steps))


def call_rows(record: AttemptRecord) -> Iterable[Row]:
    """Return the rows of `llm_calls`."""
    for step, reply in credited(record.outcome, record.steps):
        yield {
            **_step_columns(record, step),
            "role": step.request.get("role", ""),
            "model": reply.model,
            **tokens(reply.usage),
            "cost_usd": reply.usage.cost_usd,
            "cost_source": reply.cost_source,
            "finish_reason": reply.finish_reason,
            "latency_s": reply.latency_s,
            "retries": reply.retries,
        }


def step_rows(record: AttemptRecord) -> Iterable[Row]:
    """Return the rows of `steps`."""
    for step in record.steps:
        yield {
            **_step_columns(record, step),
            "kind": step.kind,
            "request": make_readable(json.dumps(step.request, ensure_ascii=False)),
            "request_digest": step.request_digest,
            "duration_s": step.duration_s,
            **_result_columns(step.result),
        }


def prediction_row(record: AttemptRecord, patch: str) -> Row:
    """Return the row of `predictions` for one of our attempts."""
    cell = record.cell
    columns = _cell_columns(record.attempt_id, cell.instance.instance_id, cell.repeat)
    return patch_row(columns, cell.arm.name, patch)


def patch_row(cell: Row, arm: str, patch: str) -> Row:
    """Return a row of `predictions`. `cell` holds attempt, instance and repeat."""
    return {
        **cell,
        "model_name_or_path": arm,
        "model_patch": patch,
        "patch_sha256": patch_sha256(patch),
    }


def evaluation_row(evaluation: Evaluation, submission: Submission, audited: Audit) -> Row:
    """Return the row of `evaluations` after a first grading."""
    return {
        **_cell_columns(submission.attempt_id, evaluation.instance_id, submission.repeat),
        "patch_sha256": patch_sha256(submission.patch),
        "environment": evaluation.environment,
        "outcome": evaluation.outcome,
        "resolved": evaluation.resolved,
        "reason": make_readable(evaluation.reason),
        **audit_columns(audited.verdict, map(str, audited.reasons), gradings=1),
        "fail_to_pass_success": list(evaluation.fail_to_pass_success),
        "fail_to_pass_failure": list(evaluation.fail_to_pass_failure),
        "pass_to_pass_success": list(evaluation.pass_to_pass_success),
        "pass_to_pass_failure": list(evaluation.pass_to_pass_failure),
        "log_tail": make_readable(evaluation.log[-LOG_TAIL_CHARACTERS:]),
        "image_digest": submission.place.image_digest,
        **resources.columns(submission.place.limits(submission.instance)),
        "harness_version": evaluation.harness_version,
        "timeout_s": evaluation.timeout_s,
        "started_at": evaluation.started_at,
        "duration_s": evaluation.duration_s,
    }


def audit_columns(verdict: AuditedVerdict | None, reasons: Iterable[str], gradings: int) -> Row:
    """Return the columns of `evaluations` that hold the result of an audit."""
    return {
        "audited_verdict": verdict,
        "audit_reasons": [make_readable(reason) for reason in reasons],
        "gradings": gradings,
    }


def model_name(spec: ModelSpec) -> str:
    """Return the display name of an arm's model in reports."""
    match spec:
        case LiteLLMSpec():
            return spec.name
        case SimulatedSpec():
            return f"simulated/skill-{spec.skill:g}"
        case _:
            return spec.provider


def usage_totals(usages: list[Usage]) -> Row:
    """Return calls, tokens and cost of an attempt. Unpriced calls are counted, not taken as
    free."""
    return {
        "model_calls": len(usages),
        "unpriced_calls": sum(usage.cost_usd is None for usage in usages),
        **tokens(sum(usages, Usage())),
        "cost_usd": known_usd(usages),
    }


def patch_sha256(patch: str) -> str:
    """Return the SHA-256 of the bytes of a patch."""
    return hashlib.sha256(encode_patch(patch)).hexdigest()


def _cell_columns(attempt_id: str, instance_id: str, repeat: int) -> Row:
    return {"attempt_id": attempt_id, "instance_id": instance_id, "repeat": repeat}


def _step_columns(record: AttemptRecord, step: Step) -> Row:
    cell = record.cell
    return {
        **_cell_columns(record.attempt_id, cell.instance.instance_id, cell.repeat),
        "scope": step.scope,
        "seq": step.seq,
        "started_at": step.started_at,
    }


def tokens(usage: Usage) -> Row:
    """Return the token columns of a usage."""
    return {name: count for name, count in asdict(usage).items() if name != "cost_usd"}


def _result_columns(result: Result) -> dict[str, Any]:
    if isinstance(result, CommandResult):
        return {
            "result": output_json(result.output),
            "exit_code": result.exit_code,
            "output_bytes": result.output_bytes,
            "timed_out": result.timed_out,
        }
    return {
        "result": make_readable(_json_result(result)),
        "exit_code": None,
        "output_bytes": None,
        "timed_out": isinstance(result, CutOff) and result.why == "time",
    }


def _json_result(result: ModelReply | ActionResult | CutOff) -> str:
    match result:
        case ModelReply(message=message):
            return json.dumps(message, ensure_ascii=False)
        case ActionResult(content=content):
            return content_json(content)
        case CutOff(cut_off=what):
            return json.dumps({"cut_off": what})


def content_json(content: Any) -> str:
    """Return what an action returned for `steps`, with the middle of long texts removed."""
    return make_readable(json.dumps(_shortened(content), ensure_ascii=False))


def _shortened(content: Any) -> Any:
    """Return the same JSON with the middle of every long text removed."""
    match content:
        case str():
            return shorten_middle(content, SHOWN_CHARACTERS)
        case list():
            return [_shortened(each) for each in content]
        case dict():
            return {name: _shortened(each) for name, each in content.items()}
        case _:
            return content


def output_json(output: str) -> str:
    """Return a command's output for `steps`, with the middle removed if it is long."""
    return json.dumps(
        {"output": make_readable(shorten_middle(output, SHOWN_CHARACTERS))}, ensure_ascii=False
    )


def write(lake: Lake, finished: AttemptRecord) -> None:
    """Write the rows of an attempt.

    `attempts` is written last, so that every attempt listed there is complete.
    """
    where = (*finished.cell.partition, finished.attempt_id)
    lake.write("llm_calls", *where, call_rows(finished))
    lake.write("steps", *where, step_rows(finished))
    if isinstance(finished.outcome, Outcome):
        lake.write("predictions", *where, [prediction_row(finished, finished.outcome.patch)])
    lake.write("attempts", *where, [attempt_row(finished)])


def journaled(cell: Cell, attempt_id: str) -> Attempt:
    """Return the journal's record of the attempt at a cell."""
    base, earlier = cell.base, cell.earlier.get(cell.arm.name)
    return Attempt(
        attempt_id,
        *cell.partition,
        cell.instance.instance_id,
        cell.repeat,
        json.dumps(agent_spec(cell), sort_keys=True) if earlier is None else earlier.spec,
        parent_id=None if base is None else attempt_id_of(base),
        reuse=None if base is None else Rules().to_text(),
    )


NO_PROGRAM: Row = {
    "claimed_usd": None,
    "restarts": None,
    "answered_from_record": None,
    "refused_tools": None,
    "agent_version": None,
}
"""These columns of an attempt that ran no program of its own."""


def credited(
    outcome: Outcome | Interruption, steps: Iterable[Step]
) -> Iterable[tuple[Step, ModelReply]]:
    """Yield the answered calls that led to the outcome.

    A program that was started again may not have repeated all calls of its earlier runs. Those are
    billed, but not credited.
    """
    unused = set(_report(outcome).get("unused_calls") or ())
    for step in steps:
        is_left = step.scope == SCOPE and step.seq in unused
        if isinstance(step.result, ModelReply) and not is_left:
            yield step, step.result


def program_columns(outcome: Outcome | Interruption) -> Row:
    """Return the columns of what the gateway saw of a program."""
    told = _report(outcome)
    if not told:
        return NO_PROGRAM
    own = {name: told.get(name) for name in NO_PROGRAM}
    return {**own, "refused_tools": sum(told.get("server_tools", {}).values())}


def _report(outcome: Outcome | Interruption) -> dict[str, Any]:
    report = outcome.report if isinstance(outcome, Outcome) else None
    return dict((report or {}).get("command") or {})


NOTHING_KNOWN: Row = {"base_attempt_id": None, "reused_calls": None, "reused_usd": None}
"""These columns of an attempt of another system."""


def sharing_columns(base_attempt_id: str | None, reused: Sequence[Usage]) -> Row:
    """Return the columns of an attempt, given the usage of the calls that it reuses."""
    return {
        "base_attempt_id": base_attempt_id,
        "reused_calls": len(reused),
        "reused_usd": known_usd(reused),
    }


def known_usd(usages: Sequence[Usage]) -> float | None:
    """Return the known cost of calls, or None if no cost of any is known."""
    priced = [usage.cost_usd for usage in usages if usage.cost_usd is not None]
    return sum(priced) if priced or not usages else None
