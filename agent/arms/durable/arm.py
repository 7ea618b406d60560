"""The durable arm: the repository and its test runner, then the flow of the preset."""

from agent.arms.durable import full, lean
from agent.arms.durable.contract import write_contract
from agent.arms.durable.indexing import look_around
from agent.arms.durable.lean import LeanState
from agent.arms.durable.outcome import full_outcome, lean_outcome
from agent.arms.durable.profile import FullProfile, LeanProfile
from agent.arms.durable.state import State
from agent.arms.durable.verification import probed
from agent.arms.options import DurableOptions
from agent.conversation.exchanges import Limits
from agent.conversation.limits import LimitReached, Meter
from agent.errors import OutOfTime
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
    except OutOfTime as error:  # before there was any work
        return Outcome("out_of_time", "", str(error))
    except LimitReached as error:
        return Outcome("out_of_steps", "", str(error))


async def _lean(
    task: Task, session: Session, options: DurableOptions, profile: LeanProfile
) -> Outcome:
    repository = await look_around(task, profile.map_tokens, session.scope("index"))
    meter = Meter(session, options.step_limit, options.cost_limit_usd)
    tools = _tools(task, profile)
    probe = await probed(tools, repository.test_files, session.scope("probe"))
    state = LeanState(task, profile, repository, tools, meter, probe)
    await lean.work(state, session, options.time_limit_s)
    return lean_outcome(state, session.steps)


async def _full(
    task: Task, session: Session, options: DurableOptions, profile: FullProfile
) -> Outcome:
    meter = Meter(session, options.step_limit, options.cost_limit_usd)
    limits = Limits(profile.context_tokens, meter=meter)
    contract = await write_contract(task, limits, session.scope("contract"))
    repository = await look_around(task, profile.map_tokens, session.scope("index"))
    tools = _tools(task, profile)
    probe = await probed(tools, repository.test_files, session.scope("probe"))
    state = State(task, profile, repository, tools, meter, probe, contract=contract)
    workflow_status, why = await full.work(state, session)
    return full_outcome(state, workflow_status, session.steps, why)


def _tools(task: Task, profile: LeanProfile | FullProfile) -> ToolSettings:
    return ToolSettings(
        runner=runner_of(profile.test_command) if profile.test_command else task.runner,
        command_timeout_s=profile.command_timeout_s,
        test_timeout_s=profile.test_timeout_s,
    )
