"""Phase 9: the attempt's outcome, with the evidence for it."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any, Literal

from agent.arms.durable.state import (
    Candidate,
    FinalResult,
    State,
    StepResult,
    Verification,
)
from agent.models.protocol import ModelReply, Usage
from agent.session.steps import Step
from agent.types import Outcome, OutcomeStatus

WorkflowStatus = Literal["completed", "blocked", "out_of_turns", "out_of_time"]
"""`completed`: the planner finished; `blocked`: the task could not be reproduced."""


def outcome(
    state: State, workflow_status: WorkflowStatus, steps: Iterable[Step], why: str = ""
) -> Outcome:
    """Return the outcome of the attempt: four separate statements and their evidence.

    A patch that the reviewer did not accept is submitted nevertheless, since an empty one resolves
    nothing. The verdict states the agent's own judgement. An attempt that ran out of time submits
    nothing.
    """
    final = state.finals[-1] if state.finals else None
    patch = final.patch if final and workflow_status != "out_of_time" else ""
    verdict = _verdict(final)
    brief, anchor = state.reproduction.brief, state.reproduction.anchor
    report = {
        "workflow_status": workflow_status,
        "agent_verdict": verdict,
        "reproduced": anchor is not None,
        "prediction_emitted": bool(patch),
        "contract": state.contract.model_dump(),
        "brief": brief.model_dump() if brief else None,
        "anchor": {"path": anchor.path, "content": anchor.content} if anchor else None,
        "not_reproduced_because": state.reproduction.problem,
        "regression_tests": list(state.reproduction.regression_tests),
        "steps": [_step(result) for result in state.steps],
        "finals": [_final(each) for each in state.finals],
        "backlog": state.backlog,
        "usage_by_role": usage_by_role(steps),
    }
    if workflow_status == "blocked":
        why = f"not reproduced: {state.reproduction.problem}"
    detail = why or f"{workflow_status}, {verdict}"
    return Outcome(_status(workflow_status, patch), patch, detail, report)


def _status(workflow_status: WorkflowStatus, patch: str) -> OutcomeStatus:
    if workflow_status == "out_of_time":
        return "out_of_time"
    return "submitted" if patch else "gave_up"


def _verdict(final: FinalResult | None) -> str:
    if final is None:
        return "unverified"
    return "accepted" if final.review.verdict == "accept" else "rejected"


def usage_by_role(steps: Iterable[Step]) -> dict[str, Any]:
    """Return calls, tokens and cost of each role. A cost is null if that of any call is unknown.

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


def _step(result: StepResult) -> dict[str, Any]:
    return {
        "title": result.step.title,
        "instructions": result.step.instructions,
        "targets": result.step.targets,
        "chosen": result.chosen.number,
        "candidates": [_candidate(candidate) for candidate in result.candidates],
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
        "evidence": _evidence(candidate.verification),
        "verdict": candidate.review.verdict if candidate.review else None,
        "diff": candidate.diff,
    }


def _final(final: FinalResult) -> dict[str, Any]:
    return {
        "verdict": final.review.verdict,
        "reasons": final.review.reasons,
        "issues": final.review.issues,
        "broken": list(final.verification.broken),
        "passed": final.verification.passed,
        "evidence": _evidence(final.verification),
    }


def _evidence(found: Verification | None) -> list[dict[str, Any]]:
    """Return the test runs that a judgement is based on."""
    return [
        {
            "command": run.command,
            "exit_code": run.exit_code,
            "passed": len(run.passed),
            "failed": run.failed,
            "errors": run.errors,
        }
        for run in (found.runs if found else ())
    ]
