"""The durable arm: the repository and its test runner, then the flow of the preset."""

from agent.arms.durable import full, lean
from agent.arms.durable.approving import (
    approved_change,
    approved_contract,
    approved_patch,
    approved_plan,
    as_decided,
)
from agent.arms.durable.contract import write_contract
from agent.arms.durable.indexing import look_around
from agent.arms.durable.lean import LeanState
from agent.arms.durable.options import DurableOptions
from agent.arms.durable.outcome import full_outcome, lean_outcome
from agent.arms.durable.profile import FullProfile, LeanProfile
from agent.arms.durable.state import State
from agent.arms.durable.verification import probed
from agent.conversation.ends import ended
from agent.conversation.exchanges import ConversationLimits
from agent.conversation.limits import LimitReached, Meter
from agent.conversation.person import Dismissed
from agent.errors import OutOfTime
from agent.journal import InboxMessage
from agent.runners import runner_of
from agent.session.session import Session
from agent.tools import ToolSettings
from agent.types import Outcome, Task


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
        return Outcome(ended(error), "", str(error))


async def _lean(
    task: Task, session: Session, options: DurableOptions, profile: LeanProfile
) -> Outcome:
    repository = await look_around(profile, session.scope("index"))
    meter = Meter(session, options.step_limit, options.cost_limit_usd)
    tools = _tools(task, profile)
    probe = await probed(tools, repository.test_files, session.scope("probe"))
    state = LeanState(task, profile, repository, tools, meter, probe)
    plan = None
    if options.approval == "plan":
        plan, decided = await approved_plan(state, session.scope("plan"))
        if decided.kind == "reject":
            return Outcome("gave_up", "", decided.why)
    await lean.work(state, session, options.time_limit_s, plan)
    if options.approval != "patch" or state.chosen is None:
        return lean_outcome(state, session.steps)
    if isinstance(state.ended, Dismissed):
        raise state.ended
    decided = await approved_change(state, session.scope("approval"))
    return as_decided(lean_outcome(state, session.steps), decided)


async def _full(
    task: Task, session: Session, options: DurableOptions, profile: FullProfile
) -> Outcome:
    meter = Meter(session, options.step_limit, options.cost_limit_usd)
    limits = ConversationLimits(profile.context_tokens, meter=meter)
    contract = await write_contract(task, limits, session.scope("contract"))
    heard: list[InboxMessage] = []
    if options.approval == "plan":
        contract, decided = await approved_contract(
            contract, task, limits, heard, session.scope("plan")
        )
        if decided.kind == "reject":
            return Outcome("gave_up", "", decided.why)
    repository = await look_around(profile, session.scope("index"))
    tools = _tools(task, profile)
    probe = await probed(tools, repository.test_files, session.scope("probe"))
    state = State(task, profile, repository, tools, meter, probe, heard=heard, contract=contract)
    status = await full.work(state, session)
    if options.approval != "patch" or not state.patch:
        return full_outcome(state, status, session.steps)
    if isinstance(state.ended, Dismissed):
        raise state.ended
    status, decided = await approved_patch(state, status, session.scope("approval"))
    return as_decided(full_outcome(state, status, session.steps), decided)


def _tools(task: Task, profile: LeanProfile | FullProfile) -> ToolSettings:
    return ToolSettings(
        runner=runner_of(profile.test_command) if profile.test_command else task.runner,
        command_timeout_s=profile.command_timeout_s,
        test_timeout_s=profile.test_timeout_s,
    )
