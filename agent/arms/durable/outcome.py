"""The attempt's outcome, with the evidence for it."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any, Literal

from agent.arms.durable.gates import Judgement
from agent.arms.durable.lean import LeanState
from agent.arms.durable.state import Candidate, Evidence, State
from agent.conversation.person import Dismissed
from agent.errors import LimitReached, OutOfTime
from agent.models.protocol import ModelReply, Usage
from agent.session.steps import Step
from agent.tools import TestRun
from agent.types import Outcome, OutcomeStatus, get_end_status

WorkflowStatus = Literal[
    "completed",
    "unproven",
    "blocked",
    "gates_closed",
    "out_of_turns",
    "out_of_time",
    "out_of_limits",
    "dismissed",
]
"""`completed`: every gate opened; `unproven`: so they did, but the test runner does not work, and
nothing was tested; `blocked`: the task could not be reproduced; `dismissed`: a person ended the
work."""


def full_outcome(state: State, workflow_status: WorkflowStatus, steps: Iterable[Step]) -> Outcome:
    """Return the outcome of an attempt of the full preset: separate statements and their evidence.

    A patch that the reviewer did not accept is submitted nevertheless, since an empty one resolves
    nothing. If no step was kept, the best rejected one is submitted. The verdict states the agent's
    own judgement.
    """
    final = state.finals[-1] if state.finals else None
    patch = state.patch
    if workflow_status == "completed" and not state.probe.works:
        workflow_status = "unproven"
    verdict = "unverified"
    if final is not None:
        verdict = _format_acceptance(state) if final.review.verdict == "accept" else "rejected"
    brief = state.reproduction.brief
    report = {
        "preset": "full",
        "workflow_status": workflow_status,
        "agent_verdict": verdict,
        **_tests(state),
        "prediction_emitted": bool(patch),
        "contract": state.contract.model_dump(),
        "brief": brief.model_dump() if brief else None,
        "regression_tests": list(state.reproduction.regression_tests),
        "steps": [
            {
                "title": result.step.title,
                "instructions": result.step.instructions,
                "targets": result.step.targets,
                "chosen": result.chosen.number,
                "candidates": [_candidate(candidate) for candidate in result.candidates],
            }
            for result in state.steps
        ],
        "finals": [
            {
                "verdict": result.review.verdict,
                "reasons": result.review.reasons,
                "issues": result.review.issues,
                "broken": list(result.verification.broken),
                "passed": result.verification.passed,
                "evidence": _runs(result.verification.runs),
            }
            for result in state.finals
        ],
        "backlog": state.backlog,
        "usage_by_role": usage_by_role(steps),
    }
    why = str(state.ended or "")
    if workflow_status == "blocked":
        why = f"not reproduced: {state.reproduction.problem}"
    detail = why or _unproven(state) or f"{workflow_status}, {verdict}"
    if final is not None and final.review.verdict == "accept" and not patch:
        return Outcome("submitted", "", state.answer, report)
    return Outcome(_status(workflow_status, patch, state), patch, detail, report)


def lean_outcome(state: LeanState, steps: Iterable[Step]) -> Outcome:
    """Return the outcome of an attempt of the lean preset: the best change and its evidence."""
    chosen = state.chosen
    patch = chosen.change.patch if chosen else ""
    workflow_status: WorkflowStatus = "gates_closed"
    if chosen is not None and chosen.accepted:
        workflow_status = "completed" if state.probe.works else "unproven"
    elif state.ended is not None:
        workflow_status = cut_off(state.ended)
    elif state.profile.reproduction == "required" and state.reproduction.anchor is None:
        workflow_status = "blocked"
    closed = [line for finding in chosen.findings for line in finding.lines] if chosen else []
    verdict = "unverified"
    if chosen is not None and "unverified" not in chosen.gates:
        verdict = _format_acceptance(state) if chosen.accepted else "rejected"
    report = {
        "preset": "lean",
        "workflow_status": workflow_status,
        "agent_verdict": verdict,
        **_tests(state),
        "prediction_emitted": bool(patch),
        "closed_gates": sorted(chosen.gates) if chosen else ["change"],
        "failed_checks": closed,
        "unfinished": chosen.incomplete if chosen else "",
        "plans": [plan.model_dump() for plan in state.plans],
        "rulings": [ruling.model_dump() for ruling in state.rulings],
        "changes": [
            _format_judgement(judged, is_chosen=judged is chosen) for judged in state.judged
        ],
        "usage_by_role": usage_by_role(steps),
    }
    how = _unproven(state) if workflow_status == "unproven" else workflow_status
    reasons = [str(state.ended or ""), how, *closed[:1]]
    if chosen is not None and chosen.is_answer:
        return Outcome("submitted", "", chosen.summary, report)
    status = _status(workflow_status, patch, state)
    return Outcome(status, patch, ", ".join(filter(None, reasons)), report)


def _format_acceptance(state: Evidence) -> str:
    """Return the verdict on a change that passes all checks."""
    return "accepted" if state.probe.works else "unverified"


def _unproven(state: Evidence) -> str:
    """Return the reason why no test supports a change, or '' if the test runner works."""
    if state.probe.works:
        return ""
    return f"unproven: the test runner does not work: {state.probe.reason}"


def cut_off(error: OutOfTime | LimitReached) -> WorkflowStatus:
    """Return how work ended that an error has cut off."""
    if isinstance(error, Dismissed):
        return "dismissed"
    return "out_of_time" if isinstance(error, OutOfTime) else "out_of_limits"


def _tests(state: Evidence) -> dict[str, Any]:
    """Return the statements on the tests of an attempt that both presets make."""
    anchor = state.reproduction.anchor
    return {
        "test_runner": {
            "command": state.tools.runner.command,
            "works": state.probe.works,
            "problem": state.probe.reason,
        },
        "reproduced": anchor is not None,
        "anchor": {"path": anchor.path, "content": anchor.content} if anchor else None,
        "not_reproduced_because": state.reproduction.problem or state.probe.reason,
        "withdrawn_tests": [old.path for old in state.withdrawn],
        "excepted_tests": list(state.excepted),
        "named_tests_not_run": list(state.not_run),
    }


def _format_judgement(judged: Judgement, *, is_chosen: bool) -> dict[str, Any]:
    runs = judged.runs
    return {
        "chosen": is_chosen,
        "summary": judged.summary,
        "confidence": judged.confidence,
        "files": list(judged.change.files),
        "strays": list(judged.change.strays),
        "closed_gates": sorted(judged.gates),
        "failed_checks": [line for finding in judged.findings for line in finding.lines],
        "unfinished": judged.incomplete,
        "evidence": _runs(run for run in (runs.anchor, runs.before, runs.after) if run),
        "not_run": list(runs.left_out),
        "diff": judged.change.patch,
    }


def _status(workflow_status: WorkflowStatus, patch: str, state: Evidence) -> OutcomeStatus:
    if state.ended is not None and workflow_status not in ("completed", "unproven"):
        return get_end_status(state.ended)
    return "submitted" if patch else "gave_up"


def usage_by_role(steps: Iterable[Step]) -> dict[str, Any]:
    """Return calls, tokens and cost of each role. A cost is null if the cost of a call is unknown.

    Calls are sorted, because candidates finish in any order and sums of floats depend on it.
    """
    calls: dict[str, list[Usage]] = defaultdict(list)
    for step in sorted(steps, key=lambda step: (step.scope, step.seq)):
        if isinstance(step.result, ModelReply):
            calls[step.request["role"]].append(step.result.usage)
    return {
        role: {"calls": len(usages), **asdict(sum(usages, Usage()))}
        for role, usages in sorted(calls.items())
    }


def _candidate(candidate: Candidate) -> dict[str, Any]:
    return {
        "number": candidate.number,
        "status": candidate.status,
        "summary": candidate.summary,
        "confidence": candidate.confidence,
        "edited": list(candidate.edited),
        "tests_run": candidate.tests_run,
        "broken": list(candidate.broken),
        "passed": candidate.verification.passed if candidate.verification else 0,
        "evidence": _runs(candidate.verification.runs if candidate.verification else ()),
        "verdict": candidate.review.verdict if candidate.review else None,
        "diff": candidate.diff,
    }


def _runs(runs: Iterable[TestRun]) -> list[dict[str, Any]]:
    """Return the test runs that support a judgement."""
    return [
        {
            "command": run.command,
            "exit_code": run.exit_code,
            "passed": len(run.passed),
            "failed": run.failed,
            "errors": run.errors,
        }
        for run in runs
    ]
