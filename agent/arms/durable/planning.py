"""Phase 4: the rolling planner, one step at a time from normalised facts."""

from agent.arms.durable.answers import PlanTurn
from agent.arms.durable.implementation import SHOWN_DIFF
from agent.arms.durable.roles import conversation
from agent.arms.durable.state import State
from agent.checks import debugging
from agent.conversation.conversation import prompt_beside
from agent.conversation.person import Person
from agent.session.session import Session
from agent.tools.rendering import head_and_tail

_ROUNDS = 8
_MOST_FACTS, _FACT_CHARS = 40, 500


async def plan(state: State, session: Session) -> PlanTurn | None:
    """Run one turn of the planner. Return None if it gave no valid answer."""
    facts = {
        **state.as_facts(
            "task",
            "contract",
            "brief",
            "anchor",
            "regression_tests",
            "backlog",
            "facts",
            "context",
            "completed_steps",
            "last_step",
            "earlier_errors",
        ),
        "diff": head_and_tail(await session.diff(), SHOWN_DIFF),
    }
    prompt = prompt_beside(__file__)
    if debugging.is_stuck(state.errors):
        prompt += f"\n{debugging.ROOT_CAUSE}"
    limits = state.limits(_ROUNDS, state.profile.plan_tool_uses)
    person = Person(session, heard=state.heard)
    talk = conversation("planner", state, session, prompt, facts, PlanTurn, limits, person=person)
    return (await talk.until_answer()).answer


def adopt(state: State, turn: PlanTurn) -> None:
    """Add a turn's facts to the state, and adopt its backlog."""
    new = [" ".join(fact.split())[:_FACT_CHARS] for fact in turn.facts]
    state.facts = [fact for fact in dict.fromkeys([*state.facts, *new]) if fact][-_MOST_FACTS:]
    state.backlog = list(turn.backlog)


def is_done(state: State, turn: PlanTurn) -> bool:
    """Return True if nothing remains. The planner's word counts only if the facts agree."""
    return turn.done and not turn.backlog and not state.needs_replanning and not turn.next_step
