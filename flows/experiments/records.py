"""Convert attempts, their programs and replies, steps and gradings to lake rows."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, get_args

from agent.arms.command import SCOPE
from agent.arms.command.recipe import CommandOptions
from agent.arms.options import ArmOptions
from agent.conversation import replies
from agent.errors import RequestRefused
from agent.journal import Attempt
from agent.models.protocol import ModelReply, Usage
from agent.models.spec import LiteLLMSpec, ModelSpec, RecordedSpec, SimulatedSpec
from agent.session.reuse import Rules
from agent.session.steps import ActionResult, CutOff, Result, Step
from agent.types import Outcome
from agent.workspaces import CommandResult
from eval.audit import Audit, AuditedVerdict
from eval.digests import canonical_digest
from eval.types import Evaluation
from flows.experiments import resources
from flows.experiments.cell_state import Interruption
from flows.experiments.cells import Cell, Submission
from flows.experiments.keys import agent_spec, attempt_id_of
from flows.storage.files import (
    content_json,
    make_readable,
    output_json,
    patch_row,
    patch_sha256,
)
from flows.storage.lake import Lake, Row, versions

NO_PROGRAM: Row = {
    "claimed_usd": None,
    "restarts": None,
    "answered_from_record": None,
    "loosened_calls": None,
    "unused_calls": None,
    "first_difference": None,
    "refused_tools": None,
    "first_request_s": None,
    "agent_version": None,
    "recipe_digest": None,
}
"""The columns of an attempt that ran no external program."""


def columns(options: ArmOptions, program: Mapping[str, Any], steps: Iterable[Step]) -> Row:
    """Return the columns of an attempt. `program` is its `ProgramRun`; empty if it did not end."""
    if not isinstance(options, CommandOptions):
        return NO_PROGRAM
    recipe = options.program.model_dump(mode="json", exclude_defaults=True)
    row = {name: program.get(name) for name in NO_PROGRAM}
    row["recipe_digest"] = canonical_digest(recipe)
    starts = sum(step.scope == SCOPE and step.request.get("action") == "begin" for step in steps)
    row["restarts"] = max(starts - 1, 0)
    if program:
        row["refused_tools"] = sum(program.get("server_tools", {}).values())
        row["unused_calls"] = len(program.get("unused_calls", ()))
        if "loosened" in program:  # not in attempts of earlier releases
            row["loosened_calls"] = len(program["loosened"])
            row["first_difference"] = _describe(program["first_difference"])
    return row


def _describe(difference: Mapping[str, str] | None) -> str | None:
    """Return the first difference of a call that was bought twice as one line."""
    if difference is None:
        return None
    return f"{difference['place']}: {difference['before']!r} became {difference['after']!r}"


FLAWS: tuple[replies.Flaw, ...] = get_args(replies.Flaw)


def reader_of(cell: Cell, steps: Sequence[Step]) -> replies.Reader | None:
    """Return the reader of the replies in these steps of an attempt.

    Return None where it is unknown whether a text is a call: for a function of another package and
    for recorded models. In a chat, a text goes to the person.
    """
    arm, model = cell.arm, cell.experiment.model_of(cell.arm)
    if arm.agent == "command":
        return replies.reader_of_programs(steps)
    specs = arm.options.models(model) if model else {}
    is_recorded = any(isinstance(spec, RecordedSpec) for spec in specs.values())
    if arm.agent == "python" or is_recorded or getattr(arm.options, "interactive", False):
        return None

    def is_native(role: str) -> bool:
        return getattr(specs.get(role, model), "native_tools", True)

    if arm.agent in ("mini", "mini_retry"):
        return replies.reader_of_mini(is_native)
    return replies.reader_of_conversations(is_native)


LOG_TAIL_CHARACTERS = 4_000

NO_REPORT: Row = {
    "workflow_status": None,
    "agent_verdict": None,
    "reproduced": None,
    "prediction_emitted": None,
    "report": None,
}
"""These columns of an attempt whose arm reports nothing about itself."""


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
    """Time during which a step of any of its runs, or of its base, was running."""
    base_attempt_id: str | None = None
    """The attempt that it was forked or derived from."""
    copied: frozenset[tuple[str, int]] = frozenset()
    """Scope and number of the steps that it has from that attempt."""
    git_removed: tuple[str, ...] = ()

    @property
    def report(self) -> dict[str, Any] | None:
        """The report of the arm about itself."""
        return self.outcome.report if isinstance(self.outcome, Outcome) else None

    @property
    def program(self) -> dict[str, Any]:
        """The gateway's observations of an external program; empty without one."""
        return dict((self.report or {}).get("command") or {})

    @cached_property
    def _credited_steps(self) -> list[Step]:
        unused = set(self.program.get("unused_calls") or ())
        return [s for s in self.steps if not (s.scope == SCOPE and s.seq in unused)]

    @cached_property
    def credited(self) -> list[tuple[Step, ModelReply]]:
        """The answered calls that led to the outcome.

        A program that was restarted can have skipped calls of its earlier runs. Those are billed,
        but not credited.
        """
        return [(s, s.result) for s in self._credited_steps if isinstance(s.result, ModelReply)]

    @property
    def refusals(self) -> Iterator[CutOff]:
        """The ends of requests that the model's server refused for good."""
        ends = (step.result for step in self.steps if isinstance(step.result, CutOff))
        return (end for end in ends if end.why in ("too_long", "refused"))

    @cached_property
    def flaws(self) -> Mapping[replies.Place, list[replies.Flaw]]:
        """The flaws of each credited reply by its place."""
        return replies.find_flaws(self._credited_steps, reader_of(self.cell, self._credited_steps))

    @property
    def cell_columns(self) -> Row:
        """The columns that identify the attempt."""
        instance_id = self.cell.instance.instance_id
        return {
            "attempt_id": self.attempt_id,
            "instance_id": instance_id,
            "repeat": self.cell.repeat,
        }

    def step_columns(self, step: Step) -> Row:
        """Return the columns that identify a step."""
        place = {"scope": step.scope, "seq": step.seq, "started_at": step.started_at}
        return {**self.cell_columns, **place}


def write(lake: Lake, record: AttemptRecord) -> Row:
    """Write the rows of an attempt. Return its row of `attempts`.

    `attempts` is written last, so that every attempt listed there is complete.
    """
    arm, where = record.cell.arm.name, (*record.cell.partition, record.attempt_id)
    lake.write("llm_calls", *where, _call_rows(record))
    lake.write("steps", *where, _step_rows(record))
    if isinstance(record.outcome, Outcome):
        row = patch_row(record.cell_columns, arm, record.outcome.patch)
        lake.write("predictions", *where, [row])
    row = _attempt_row(record)
    lake.write("attempts", *where, [row])
    return row


def _attempt_row(record: AttemptRecord) -> Row:
    cell, instance = record.cell, record.cell.instance
    model = cell.experiment.model_of(cell.arm)
    usages = [reply.usage for _, reply in record.credited]
    reused = [
        reply.usage for step, reply in record.credited if (step.scope, step.seq) in record.copied
    ]
    # A program without a metered call is not free: its cost is unknown.
    is_unmetered = cell.arm.agent == "command" and not usages
    return {
        **record.cell_columns,
        "repo": instance.repo,
        "difficulty": instance.row.get("difficulty"),
        "instance_created_at": make_readable(str(instance.row.get("created_at") or "")) or None,
        "agent": cell.arm.agent,
        "model": model_name(model) if model else "none",
        "provider": model.provider if model else "none",
        "environment": cell.place.environment,
        "outcome": record.outcome.status,
        "detail": make_readable(_describe_end(record)),
        **_report_columns(record.report),
        "started_at": record.started_at,
        "duration_s": record.duration_s,
        "order_in_instance": cell.order_in_instance,
        "model_calls": len(usages),
        "unpriced_calls": sum(usage.cost_usd is None for usage in usages),
        **tokens(sum(usages, Usage())),
        **_reply_columns(record),
        "cost_usd": None if is_unmetered else _sum_known_usd(usages),
        "billed_usd": None if is_unmetered else record.billed_usd,
        "base_attempt_id": record.base_attempt_id,
        "reused_calls": len(reused),
        "reused_usd": _sum_known_usd(reused),
        **columns(cell.arm.options, record.program, record.steps),
        "seed": cell.seed,
        "image": instance.image if cell.place.environment == "docker" else "",
        "image_digest": cell.place.image_digest,
        "git_removed": [make_readable(name) for name in record.git_removed],
        **resources.columns(cell.place.limits(instance)),
        "versions": json.dumps(versions()),
    }


def _describe_end(record: AttemptRecord) -> str:
    """Return the reason for the end of an attempt; without an answer, also the server's."""
    detail, refusal = record.outcome.detail, next(record.refusals, None)
    if record.credited or refusal is None or refusal.cut_off in detail:
        return detail
    return f"{detail}: {refusal.cut_off}"


def _reply_columns(record: AttemptRecord) -> Row:
    """Return the numbers of replies with each flaw, and of requests refused for good."""
    counts = Counter(flaw for flaws in record.flaws.values() for flaw in flaws)
    columns: Row = {f"{flaw}_replies": counts[flaw] for flaw in FLAWS}
    if reader_of(record.cell, []) is None:
        columns["callless_replies"] = None
    refused = len(list(record.refusals))
    # A refusal that stopped the attempt is not a step: the next run sends the request again.
    refused += record.outcome.detail.startswith(f"{RequestRefused.__name__}: ")
    return {**columns, "refused_requests": refused}


def _report_columns(report: dict[str, Any] | None) -> Row:
    """Return the columns of an arm's report: four separate statements and the full report."""
    if report is None:
        return NO_REPORT
    statements = {name: report.get(name) for name in NO_REPORT}
    return {**statements, "report": make_readable(json.dumps(report, ensure_ascii=False))}


def _call_rows(record: AttemptRecord) -> Iterator[Row]:
    for step, reply in record.credited:
        yield {
            **record.step_columns(step),
            "role": step.request.get("role", ""),
            "model": reply.model,
            **tokens(reply.usage),
            "cost_usd": reply.usage.cost_usd,
            "cost_source": reply.cost_source,
            "finish_reason": reply.finish_reason,
            "flaws": record.flaws[step.scope, step.seq],
            "latency_s": reply.latency_s,
            "retries": reply.retries,
        }


def _step_rows(record: AttemptRecord) -> Iterator[Row]:
    for step in record.steps:
        yield {
            **record.step_columns(step),
            "kind": step.kind,
            "request": make_readable(json.dumps(step.request, ensure_ascii=False)),
            "request_digest": step.request_digest,
            "duration_s": step.duration_s,
            **_result_columns(step.result),
        }


def _result_columns(result: Result) -> Row:
    columns: Row = {"exit_code": None, "output_bytes": None, "timed_out": False}
    match result:
        case CommandResult():
            return {
                "result": output_json(result.output),
                "exit_code": result.exit_code,
                "output_bytes": result.output_bytes,
                "timed_out": result.timed_out,
            }
        case ModelReply(message=message):
            return {**columns, "result": make_readable(json.dumps(message, ensure_ascii=False))}
        case ActionResult(content=content):
            return {**columns, "result": content_json(content)}
        case CutOff(cut_off=what, why=why):
            text = make_readable(json.dumps({"cut_off": what}))
            return {**columns, "result": text, "timed_out": why == "time"}


def evaluation_row(evaluation: Evaluation, submission: Submission, audited: Audit) -> Row:
    """Return the row of `evaluations` after a first grading."""
    return {
        "attempt_id": submission.attempt_id,
        "instance_id": evaluation.instance_id,
        "repeat": submission.repeat,
        "patch_sha256": patch_sha256(submission.patch),
        "environment": evaluation.environment,
        "outcome": evaluation.outcome,
        "resolved": evaluation.resolved,
        "reason": make_readable(evaluation.reason),
        "reward": evaluation.reward,
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


def tokens(usage: Usage) -> Row:
    """Return the token columns of a usage."""
    return {name: count for name, count in asdict(usage).items() if name != "cost_usd"}


def _sum_known_usd(usages: Sequence[Usage]) -> float | None:
    """Return the known cost of calls, or None if no cost of any is known."""
    costs = [usage.cost_usd for usage in usages if usage.cost_usd is not None]
    return sum(costs) if costs or not usages else None


def get_journal_attempt(cell: Cell, attempt_id: str) -> Attempt:
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
