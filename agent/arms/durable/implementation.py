"""Phase 5: one step of the plan, made by one candidate in a bounded tool loop."""

from agent.arms.durable.answers import NextStep, StepReport
from agent.arms.durable.context import gathering
from agent.arms.durable.roles import conversation, network
from agent.arms.durable.state import Candidate, CandidateStatus, State
from agent.checks import debugging
from agent.conversation.conversation import prompt_beside
from agent.conversation.exchanges import Exchange, ToolUse, changed_files, written_files
from agent.errors import OutOfTime
from agent.ptc.tool import program_uses
from agent.session.session import Session
from agent.tools.rendering import head_and_tail

SHOWN_DIFF = 40_000
"""Maximum length of a diff in a prompt, in characters."""


async def implement(state: State, step: NextStep, number: int, session: Session) -> Candidate:
    """Let an implementer make the step in the session's workspace.

    Return its candidate, also when its time ran out.
    """
    uses: list[ToolUse] = []
    diff = ""
    try:
        exchange = await _talk(state, step, number, session, uses)
        diff = await session.diff()
    except OutOfTime:
        exchange = Exchange(None, "out_of_time", tuple(uses))
    return _candidate(number, exchange, session, diff)


async def _talk(
    state: State, step: NextStep, number: int, session: Session, uses: list[ToolUse]
) -> Exchange[StepReport]:
    facts = {
        **state.as_facts(
            "task",
            "contract",
            "anchor",
            "regression_tests",
            "context",
            "facts",
            "completed_steps",
            "last_step",
            "earlier_errors",
        ),
        "network": network(session),
        "step": step.model_dump(),
        "candidate": number,
        "diff": head_and_tail(await session.diff(), SHOWN_DIFF),
    }
    prompt = prompt_beside(__file__)
    if debugging.is_stuck(state.errors):
        prompt += f"\n{debugging.ROOT_CAUSE}"
    limits = state.limits(state.profile.step_rounds)
    talk = conversation(
        "implementer",
        state,
        session,
        prompt,
        facts,
        StepReport,
        limits,
        [gathering(state)],
        uses.append,
    )
    return await talk.until_answer()


def _candidate(
    number: int, exchange: Exchange[StepReport], session: Session, diff: str
) -> Candidate:
    uses = [*exchange.uses, *program_uses(session.steps, session.name)]
    edited = changed_files(uses)
    tests = sum(use.result.tests is not None for use in uses)
    status, why = _status(exchange, has_evidence=bool(edited) or tests > 0)
    report = exchange.answer
    return Candidate(
        number=number,
        status=status,
        summary="; ".join(filter(None, [why, report.summary if report else ""])),
        confidence=report.confidence if report else "low",
        tree=session.tree,
        diff=diff,
        edited=edited,
        written=written_files(uses),
        tests_run=tests,
    )


def _status(exchange: Exchange[StepReport], *, has_evidence: bool) -> tuple[CandidateStatus, str]:
    """Return a candidate's status, with the reason if it differs from its own report."""
    match exchange.end:
        case "out_of_rounds":
            return "replan", "out of rounds"
        case "context_full":
            return "blocked", "the context window was full"
        case "malformed":
            return "blocked", "no valid answer"
        case "out_of_time":
            return "blocked", "the time was used up"
    assert exchange.answer is not None
    if exchange.answer.status == "done" and not has_evidence:
        return "replan", "success was claimed without an edit or a test result"
    return exchange.answer.status, ""
