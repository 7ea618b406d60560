"""The durable arm: contract, repository and test runner, then the flow of the preset.

A person may decide about the plan before the work, or about the change after it.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from agent.arms.durable import full, lean
from agent.arms.durable.answers import Contract, Scouting
from agent.arms.durable.lean import LeanState
from agent.arms.durable.options import RECORDED_MAP, DurableOptions, FullProfile, LeanProfile
from agent.arms.durable.outcome import WorkflowStatus, full_outcome, lean_outcome
from agent.arms.durable.review import scout
from agent.arms.durable.state import Repository, State
from agent.arms.durable.verification import probe_runner
from agent.conversation.conversation import Conversation, prompt_beside
from agent.conversation.exchanges import ConversationLimits, Meter
from agent.conversation.person import Decision, Dismissed, get_message_facts, until_decided
from agent.errors import LimitReached, OutOfTime
from agent.index import find_tests, query
from agent.journal import InboxMessage
from agent.runners import runner_of
from agent.session.session import Session
from agent.tools import ToolSettings
from agent.types import Outcome, Task, get_end_status
from agent.workspaces import Workspace


async def solve(task: Task, session: Session, options: DurableOptions) -> Outcome:
    """Solve a task with evidence at every gate.

    Raises:
        BudgetExhausted: the next call could cost more than is left; a later run resumes.
        InfrastructureError: a model or a workspace failed.
    """
    try:
        match options.profile:
            case LeanProfile() as profile:
                return await _lean(task, session, options, profile)
            case FullProfile() as profile:
                return await _full(task, session, options, profile)
    except (OutOfTime, LimitReached) as error:  # before there was any work
        return Outcome(get_end_status(error), "", str(error))


async def _lean(
    task: Task, session: Session, options: DurableOptions, profile: LeanProfile
) -> Outcome:
    repository = await look_around(profile, session.scope("index"))
    meter = Meter(session, options.step_limit, options.cost_limit_usd)
    tools = _tools(task, profile)
    probe = await probe_runner(tools, repository.test_files, session.scope("probe"))
    state = LeanState(task, profile, repository, tools, meter, probe)
    plan = None
    if options.approval == "plan":
        plan, decision = await approve_plan(state, session.scope("plan"))
        if decision.kind == "reject":
            return Outcome("gave_up", "", decision.why)
    await lean.work(state, session, options.working_limit_s, plan)
    if options.approval != "patch" or state.chosen is None:
        return lean_outcome(state, session.steps)
    if isinstance(state.ended, Dismissed):
        raise state.ended

    async def revise(_: str, scope: Session) -> str:
        await lean.revise(state, scope)
        if isinstance(state.ended, Dismissed):
            raise state.ended
        return _describe_change(state)

    change, scope = _describe_change(state), session.scope("approval")
    _, decision = await until_decided(change, revise, str, state.heard, scope)
    return as_decided(lean_outcome(state, session.steps), decision)


async def _full(
    task: Task, session: Session, options: DurableOptions, profile: FullProfile
) -> Outcome:
    meter = Meter(session, options.step_limit, options.cost_limit_usd)
    limits = ConversationLimits(profile.context_tokens, meter=meter)
    contract = await write_contract(task, limits, session.scope("contract"))
    messages: list[InboxMessage] = []
    if options.approval == "plan":

        async def rewrite(earlier: Contract, scope: Session) -> Contract:
            return await write_contract(task, limits, scope, earlier, get_message_facts(messages))

        contract, decision = await until_decided(
            contract, rewrite, _describe_contract, messages, session.scope("plan")
        )
        if decision.kind == "reject":
            return Outcome("gave_up", "", decision.why)
    repository = await look_around(profile, session.scope("index"))
    tools = _tools(task, profile)
    probe = await probe_runner(tools, repository.test_files, session.scope("probe"))
    state = State(task, profile, repository, tools, meter, probe, heard=messages, contract=contract)
    status = await full.work(state, session)
    if options.approval != "patch" or not state.patch:
        return full_outcome(state, status, session.steps)
    if isinstance(state.ended, Dismissed):
        raise state.ended

    async def revise(_: WorkflowStatus, scope: Session) -> WorkflowStatus:
        status = await full.revise(state, scope)
        if isinstance(state.ended, Dismissed):
            raise state.ended
        return status

    def describe(_: WorkflowStatus) -> str:
        return state.patch or "No file was changed."

    scope = session.scope("approval")
    status, decision = await until_decided(status, revise, describe, state.heard, scope)
    return as_decided(full_outcome(state, status, session.steps), decision)


def _tools(task: Task, profile: LeanProfile | FullProfile) -> ToolSettings:
    return ToolSettings(
        runner=runner_of(profile.test_command) if profile.test_command else task.runner,
        command_timeout_s=profile.command_timeout_s,
        test_timeout_s=profile.test_timeout_s,
    )


async def approve_plan(state: LeanState, session: Session) -> tuple[Scouting | None, Decision]:
    """Let a person decide about the plan of a scout. Return it with the decision."""

    async def make(earlier: Scouting | None, scope: Session) -> Scouting | None:
        return await scout(state, state.judged, scope, earlier)

    first = await make(None, session.scope("made-0"))
    return await until_decided(first, make, _describe_plan, state.heard, session)


def _describe_plan(plan: Scouting | None) -> str:
    """Return a plan as text for a person."""
    if plan is None:
        return "No plan was found. If you approve, the work begins without one."
    steps = [
        f"{number}. {step.title}: {step.instructions}" for number, step in enumerate(plan.steps, 1)
    ]
    criteria = _list(plan.contract.acceptance_criteria)
    return "\n".join([plan.cause, "", plan.approach, "", *steps, "", "It is done when:", *criteria])


def _describe_contract(contract: Contract) -> str:
    """Return a contract as text for a person."""
    parts = {
        "It is done when": contract.acceptance_criteria,
        "Unchanged": contract.non_goals,
        "Open questions": contract.open_questions,
    }
    lines = [contract.goal]
    for title, items in parts.items():
        if items:
            lines += [f"{title}:", *_list(items)]
    return "\n".join(lines)


def _describe_change(state: LeanState) -> str:
    """Return the best change as text for a person, with the checks that reject it."""
    chosen = state.chosen
    if chosen is None or not chosen.change.patch:
        return "No file was changed."
    closed = [line for finding in chosen.findings for line in finding.lines]
    failed = ["These checks reject it:", *_list(closed), ""] if closed else []
    return "\n".join([chosen.summary, "", *failed, chosen.change.patch])


def _list(items: list[str]) -> list[str]:
    return [f"- {item}" for item in items]


def as_decided(outcome: Outcome, decision: Decision) -> Outcome:
    """Return the outcome with the patch that a person approved, or without one."""
    if decision.kind != "reject":
        return replace(outcome, status="submitted") if outcome.patch else outcome
    report = None if outcome.report is None else {**outcome.report, "prediction_emitted": False}
    return replace(outcome, status="gave_up", patch="", detail=decision.why, report=report)


async def write_contract(
    task: Task,
    limits: ConversationLimits,
    session: Session,
    not_approved: Contract | None = None,
    said: Mapping[str, Any] = MappingProxyType({}),
) -> Contract:
    """Return the contract of the task.

    Without a valid answer, the contract contains only the task's text. `not_approved` is the last
    contract, if a person wants another one, and `said` holds their words.
    """
    earlier = {"not_approved": not_approved.model_dump()} if not_approved else {}
    facts, prompt = {"task": task.statement, **earlier, **said}, prompt_beside(__file__, "contract")
    talk = Conversation(session, "contract", prompt, facts, Contract, limits)
    return (await talk.until_answer()).answer or Contract(
        kind="unknown",
        goal=task.statement.strip().partition("\n")[0],
        acceptance_criteria=[],
        open_questions=["no contract could be had; only the text of the task says what to do"],
    )


async def look_around(profile: LeanProfile | FullProfile, session: Session) -> Repository:
    """Return the base commit's test files."""

    async def look(workspace: Workspace) -> Repository:
        files = await query(workspace, lambda index: find_tests(index.symbols, index.texts))
        return Repository(files)

    request = {"map_tokens": RECORDED_MAP[profile.preset]}  # identifies recorded steps
    return await session.act("look around", request, look, Repository, depends_on={})
