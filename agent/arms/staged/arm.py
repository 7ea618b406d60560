"""The staged arm: explore, plan, build each subtask, then verify and repair."""

from dataclasses import dataclass, field, replace
from typing import Any

from agent.arms.options import StagedOptions
from agent.arms.staged import stages
from agent.arms.staged.stages import Staff, SubtaskPlan, Verified, verify
from agent.capabilities.base import Crew
from agent.capabilities.registry import load
from agent.checks import debugging, describe_unproven
from agent.conversation.exchanges import Meter
from agent.conversation.person import Dismissed, until_decided
from agent.errors import LimitReached, OutOfTime, ToolFailed
from agent.journal import InboxMessage
from agent.session.session import BASE, Session
from agent.tools import Protection, ToolSettings
from agent.types import Outcome, OutcomeStatus, Task, get_end_status


@dataclass
class _Work:
    """The work of an attempt so far."""

    findings: dict[str, Any] = field(default_factory=dict)
    plan: SubtaskPlan | None = None
    built: list[str] = field(default_factory=list)
    """The reports of the agents of the subtasks."""
    repaired: list[str] = field(default_factory=list)
    verified: list[Verified] = field(default_factory=list)
    not_approved: int = 0
    """Number of changes, from the first, that a person did not approve."""

    @property
    def best(self) -> Verified | None:
        """The change with the fewest failures, of several the latest; None before the first."""
        changes = [change for change in self.verified[self.not_approved :] if change.patch]
        return min(reversed(changes), key=lambda change: len(change.check.failures), default=None)


async def solve(task: Task, session: Session, options: StagedOptions) -> Outcome:
    """Work through the stages, and submit the change with the fewest failures.

    Raises:
        BudgetExhausted: the next call could cost more than is left; a later run resumes.
        InfrastructureError: a model, a tool or a workspace failed.
        Waiting: a person has not answered yet; the next message resumes the attempt.
    """
    crew = Crew(
        task,
        Meter(session, options.limits.calls, options.limits.usd),
        ToolSettings(task.runner, options.timeouts.command_s, options.timeouts.test_s),
        Protection(new_tests=True, is_on=options.protect_tests and not task.for_reviewers),
        load,
    )
    work, staff = _Work(), Staff(crew, options)
    status: OutcomeStatus = "submitted"
    why = ""
    try:
        await _run_stages(work, staff, session.scope("work", limit_s=options.working_limit_s))
    except (LimitReached, ToolFailed, OutOfTime) as error:
        status, why = get_end_status(error), str(error)
    outcome = await _outcome(work, session, status, why)
    if options.approval == "patch" and outcome.status != "submitted":
        report = {**(outcome.report or {}), "prediction_emitted": False}
        return replace(outcome, patch="", report=report)  # it was not approved
    return outcome


async def _run_stages(work: _Work, staff: Staff, session: Session) -> None:
    work.findings = await stages.explore(staff, session.scope("explore"))
    work.plan, approval = await stages.plan(staff, work.findings, session.scope("plan"))
    subtasks = work.plan.subtasks
    for number, subtask in enumerate(subtasks, 1):
        facts = {
            "findings": work.findings,
            "plan": [other.title for other in subtasks],
            **approval,
            "subtask": subtask.model_dump(),
        }
        work.built.append(await staff.work("build", facts, session.scope(f"build-{number}")))
    await _verify_and_repair(work, staff, session)
    if staff.options.approval == "patch" and work.best is not None:
        await _approve(work, staff, session.scope("approval"))


async def _approve(work: _Work, staff: Staff, session: Session) -> None:
    """Let a person decide about the best change, and revise it until they approve."""
    messages: list[InboxMessage] = []

    async def revise(_: str, scope: Session) -> str:
        """Revise the best change. If that changes nothing, the one before stays the best."""
        best, not_approved, problem = work.best, work.not_approved, ""
        work.not_approved = len(work.verified)
        try:
            await scope.scope("restart").take(best.tree if best else BASE)
            patch = best.patch if best else ""
            report = await stages.revise(staff, patch, messages, scope.scope("revise"))
            work.repaired.append(report)
            await _verify_and_repair(work, staff, scope)
        except Dismissed:
            raise
        except LimitReached as error:
            problem = f"It could not be changed further: {error}.\n\n"
        if work.best is None:
            work.not_approved = not_approved
        return f"{problem}{_describe(work.best)}"

    _, decision = await until_decided(_describe(work.best), revise, str, messages, session)
    if decision.kind == "reject":
        raise Dismissed(decision.why)


def _describe(change: Verified | None) -> str:
    """Return a change as text for a person, with the checks that reject it."""
    if change is None:
        return "No file was changed."
    failures = [f"- {failure}" for failure in change.check.failures]
    return "\n".join(
        [*(["These checks reject it:", *failures, ""] if failures else []), change.patch]
    )


async def _verify_and_repair(work: _Work, staff: Staff, session: Session) -> None:
    """Verify the change, and repair it while it fails and verifications are left."""
    errors: list[str] = []
    for number in range(1, staff.options.verifications + 1):
        change = await verify(staff.crew, session, number)
        work.verified.append(change)
        if change.passes or number == staff.options.verifications:
            return
        errors = debugging.recall_errors(errors, change.error)
        scope = session.scope(f"repair-{number}")
        work.repaired.append(await stages.repair(staff, change, errors, scope))


async def _outcome(work: _Work, session: Session, status: OutcomeStatus, why: str) -> Outcome:
    """Return the outcome with the best change; before a verification, with the change so far."""
    best = work.best
    try:
        patch = best.patch if best else await session.diff()
    except OutOfTime:
        patch = ""
    is_answer = bool(work.verified) and work.verified[-1].passes
    if not (patch or is_answer) and status == "submitted":
        status = "gave_up"
    failures = best.check.failures if best else ()
    unproven = describe_unproven(best.check.unproven) if best else ""
    verdict = "unverified"
    if best is not None and best.check.tests and not (best.passes and best.check.unproven):
        verdict = "accepted" if best.passes else "rejected"
    report = {
        "agent_verdict": verdict,
        "prediction_emitted": bool(best and best.patch),
        "findings": work.findings or None,
        "subtasks": [subtask.model_dump() for subtask in work.plan.subtasks] if work.plan else [],
        "built": work.built,
        "repaired": work.repaired,
        "verifications": [
            {
                "chosen": change is best,
                "tests": list(change.check.tests),
                "failed_checks": list(change.check.failures),
                "not_run": list(change.check.left_out),
                "diff": change.patch,
            }
            for change in work.verified
        ],
    }
    detail = why or "; ".join(failures[:1]) or unproven or (work.built[-1] if work.built else "")
    return Outcome(status, patch, detail, report)
