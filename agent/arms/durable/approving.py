"""Approvals: a person decides about the plan before the work, or about the change after it."""

from dataclasses import replace

from agent.arms.durable import full, lean
from agent.arms.durable.answers import Contract, Scouting
from agent.arms.durable.contract import write_contract
from agent.arms.durable.lean import LeanState
from agent.arms.durable.outcome import WorkflowStatus
from agent.arms.durable.scouting import scout
from agent.arms.durable.state import State
from agent.conversation.approving import until_decided
from agent.conversation.exchanges import ConversationLimits
from agent.conversation.person import Decision, Dismissed, said_by
from agent.journal import InboxMessage
from agent.session.session import Session
from agent.types import Outcome, Task


async def approved_plan(state: LeanState, session: Session) -> tuple[Scouting | None, Decision]:
    """Let a person decide about the plan of a scout. Return it with the decision."""

    async def make(earlier: Scouting | None, scope: Session) -> Scouting | None:
        return await scout(state, state.judged, scope, earlier)

    first = await make(None, session.scope("made-0"))
    return await until_decided(first, make, _plan, state.heard, session)


async def approved_change(state: LeanState, session: Session) -> Decision:
    """Let a person decide about the best change. Return the decision."""

    async def make(_: str, scope: Session) -> str:
        await lean.revise(state, scope)
        if isinstance(state.ended, Dismissed):
            raise state.ended
        return _change(state)

    _, decided = await until_decided(_change(state), make, str, state.heard, session)
    return decided


async def approved_patch(
    state: State, status: WorkflowStatus, session: Session
) -> tuple[WorkflowStatus, Decision]:
    """Let a person decide about the patch of the full preset.

    Return how the work ended in the end, with the decision.
    """

    async def make(_: object, scope: Session) -> WorkflowStatus:
        again = await full.revise(state, scope)
        if isinstance(state.ended, Dismissed):
            raise state.ended
        return again

    def shown(_: object) -> str:
        return state.patch or "No file was changed."

    return await until_decided(status, make, shown, state.heard, session)


def _plan(plan: Scouting | None) -> str:
    """Return a plan as text for a person."""
    if plan is None:
        return "No plan was found. If you approve, the work begins without one."
    steps = [
        f"{number}. {step.title}: {step.instructions}" for number, step in enumerate(plan.steps, 1)
    ]
    criteria = _list(plan.contract.acceptance_criteria)
    return "\n".join([plan.cause, "", plan.approach, "", *steps, "", "It is done when:", *criteria])


async def approved_contract(
    contract: Contract,
    task: Task,
    limits: ConversationLimits,
    heard: list[InboxMessage],
    session: Session,
) -> tuple[Contract, Decision]:
    """Let a person decide about the contract, the plan of the full preset. Return the last one."""

    async def make(earlier: Contract, scope: Session) -> Contract:
        return await write_contract(task, limits, scope, earlier, said_by(heard))

    return await until_decided(contract, make, _contract, heard, session)


def _contract(contract: Contract) -> str:
    """Return a contract as text for a person."""
    parts = {
        "It is done when": contract.acceptance_criteria,
        "Unchanged": contract.non_goals,
        "Open questions": contract.open_questions,
    }
    lines = [line for title, each in parts.items() if each for line in (f"{title}:", *_list(each))]
    return "\n".join([contract.goal, *lines])


def _list(items: list[str]) -> list[str]:
    return [f"- {each}" for each in items]


def _change(state: LeanState) -> str:
    """Return the best change as text for a person, with the checks that reject it."""
    chosen = state.chosen
    if chosen is None or not chosen.change.patch:
        return "No file was changed."
    closed = [line for finding in chosen.findings for line in finding.lines]
    failed = ["These checks reject it:", *_list(closed), ""] if closed else []
    return "\n".join([chosen.summary, "", *failed, chosen.change.patch])


def as_decided(outcome: Outcome, decided: Decision) -> Outcome:
    """Return the outcome with the patch that a person approved, or without one."""
    if decided.kind != "reject":
        return replace(outcome, status="submitted") if outcome.patch else outcome
    report = None if outcome.report is None else {**outcome.report, "prediction_emitted": False}
    return replace(outcome, status="gave_up", patch="", detail=decided.why, report=report)
