"""The staged arm: explore, plan, build each subtask, then verify and repair."""

from dataclasses import dataclass, field, replace
from typing import Any

from agent.arms.options import StagedOptions
from agent.arms.staged import stages
from agent.arms.staged.stages import Findings, Staff, SubtaskPlan, Verified, verify
from agent.capabilities.base import Crew
from agent.capabilities.declared import Delegation
from agent.capabilities.registry import load
from agent.checks import debugging, describe_unproven
from agent.conversation.exchanges import LimitReached, Meter, ended
from agent.conversation.person import Dismissed, until_decided
from agent.errors import OutOfTime, ToolFailed
from agent.journal import InboxMessage
from agent.ptc.limits import Programs
from agent.session.session import BASE, Session
from agent.tools import Protection, ToolSettings
from agent.types import Outcome, OutcomeStatus, Task

_WORKING_SHARE = 0.95
"""Share of the attempt's time for the work. The rest is for reading the change."""


@dataclass
class _Work:
    """The work of an attempt so far."""

    findings: Findings | None = None
    plan: SubtaskPlan | None = None
    built: list[str] = field(default_factory=list)
    """The reports of the agents of the subtasks."""
    repaired: list[str] = field(default_factory=list)
    verified: list[Verified] = field(default_factory=list)
    not_approved: int = 0
    """Number of changes, the first ones, that a person did not approve."""

    @property
    def best(self) -> Verified | None:
        """The change with the fewest failures, of several the latest; None before the first."""
        changes = [each for each in self.verified[self.not_approved :] if each.patch]
        return min(reversed(changes), key=lambda each: len(each.check.failures), default=None)


async def solve(task: Task, session: Session, options: StagedOptions) -> Outcome:
    """Work through the stages, and submit the change with the fewest failures.

    Raises:
        BudgetExhausted: the next call could cost more than is left; a later run resumes.
        InfrastructureError: a model, a tool or a workspace failed.
        Waiting: a person has not answered yet; the next message resumes the attempt.
    """
    limit_s = options.time_limit_s and options.time_limit_s * _WORKING_SHARE
    work, staff = _Work(), Staff(_crew(task, session, options), options)
    status: OutcomeStatus = "submitted"
    why = ""
    try:
        await _carry_out(work, staff, session.scope("work", limit_s=limit_s))
    except (LimitReached, ToolFailed, OutOfTime) as error:
        status, why = ended(error), str(error)
    outcome = await _outcome(work, session, status, why)
    if options.approval == "patch" and outcome.status != "submitted":
        report = {**(outcome.report or {}), "prediction_emitted": False}
        return replace(outcome, patch="", report=report)  # it was not approved
    return outcome


def _crew(task: Task, session: Session, options: StagedOptions) -> Crew:
    return Crew(
        task,
        Meter(session, options.limits.calls, options.limits.usd),
        ToolSettings(task.runner, options.timeouts.command_s, options.timeouts.test_s),
        Protection(new_tests=True, is_on=options.protect_tests),
        Programs(),
        Delegation(),
        load,
    )


async def _carry_out(work: _Work, staff: Staff, session: Session) -> None:
    work.findings = await stages.explore(staff, session.scope("explore"))
    work.plan, approval = await stages.plan(staff, work.findings, session.scope("plan"))
    for number in range(len(work.plan.subtasks)):
        scope = session.scope(f"build-{number + 1}")
        work.built.append(
            await stages.build(staff, work.findings, work.plan, number, approval, scope)
        )
    await _verify_and_repair(work, staff, session)
    if staff.options.approval == "patch" and work.best is not None:
        await _until_approved(work, staff, session.scope("approval"))


async def _until_approved(work: _Work, staff: Staff, session: Session) -> None:
    """Let a person decide about the best change, and change it as long as they want that.

    Raises:
        Dismissed: they rejected it or ended the attempt.
        Waiting: there is no decision yet; the next message resumes the attempt.
    """
    heard: list[InboxMessage] = []

    async def make(_: str, scope: Session) -> str:
        return await _revised(work, staff, heard, scope)

    _, decided = await until_decided(_shown(work.best), make, str, heard, session)
    if decided.kind == "reject":
        raise Dismissed(decided.why)


async def _revised(work: _Work, staff: Staff, heard: list[InboxMessage], session: Session) -> str:
    """Change the best change into what people want. Return what they are shown.

    If it makes no other change, the one before stays the best.
    """
    chosen, before, why = work.best, work.not_approved, ""
    work.not_approved = len(work.verified)
    try:
        await session.scope("restart").take(chosen.tree if chosen else BASE)
        patch = chosen.patch if chosen else ""
        work.repaired.append(await stages.revise(staff, patch, heard, session.scope("revise")))
        await _verify_and_repair(work, staff, session)
    except Dismissed:
        raise
    except LimitReached as error:
        why = f"It could not be changed further: {error}.\n\n"
    if work.best is None:
        work.not_approved = before
    return f"{why}{_shown(work.best)}"


def _shown(change: Verified | None) -> str:
    """Return a change as text for a person, with the checks that reject it."""
    if change is None:
        return "No file was changed."
    failed = ["These checks reject it:", *(f"- {each}" for each in change.check.failures), ""]
    return "\n".join([*(failed if change.check.failures else []), change.patch])


async def _verify_and_repair(work: _Work, staff: Staff, session: Session) -> None:
    """Verify the change, and repair it while it fails and verifications are left."""
    errors: list[str] = []
    for number in range(1, staff.options.verifications + 1):
        found = await verify(staff.crew, session, number)
        work.verified.append(found)
        if found.passes or number == staff.options.verifications:
            return
        errors = debugging.remembered(errors, found.error)
        scope = session.scope(f"repair-{number}")
        work.repaired.append(await stages.repair(staff, found, errors, scope))


async def _outcome(work: _Work, session: Session, status: OutcomeStatus, why: str) -> Outcome:
    """Return the outcome with the best change; before a verification, with the change so far."""
    best = work.best
    try:
        patch = best.patch if best else await session.diff()
    except OutOfTime:
        patch = ""
    failures = best.check.failures if best else ()
    unproven = describe_unproven(best.check.unproven) if best else ""
    detail = why or "; ".join(failures[:1]) or unproven or (work.built[-1] if work.built else "")
    return Outcome(status if patch else _without(status), patch, detail, _report(work, best))


def _without(status: OutcomeStatus) -> OutcomeStatus:
    """Return the status of an attempt that leaves no change."""
    return "gave_up" if status == "submitted" else status


def _report(work: _Work, best: Verified | None) -> dict[str, Any]:
    return {
        "agent_verdict": _verdict(best),
        "prediction_emitted": bool(best and best.patch),
        "findings": work.findings.model_dump() if work.findings else None,
        "subtasks": [each.model_dump() for each in work.plan.subtasks] if work.plan else [],
        "built": work.built,
        "repaired": work.repaired,
        "verifications": [
            {
                "chosen": each is best,
                "tests": list(each.check.tests),
                "failed_checks": list(each.check.failures),
                "not_run": list(each.check.left_out),
                "diff": each.patch,
            }
            for each in work.verified
        ],
    }


def _verdict(best: Verified | None) -> str:
    if best is None or not best.check.tests:
        return "unverified"
    if not best.passes:
        return "rejected"
    return "unverified" if best.check.unproven else "accepted"
