"""Effects of a planner's turn, and the end of planning."""

from typing import cast

from agent.arms.durable.answers import Contract, NextStep, PlanTurn
from agent.arms.durable.full import adopt, is_done
from agent.arms.durable.options import FullProfile
from agent.arms.durable.state import Repository, State
from agent.conversation.exchanges import Meter
from agent.tools import ToolSettings
from agent.tools.testing import Probe
from tests.agent.arms.durable.conftest import STEP, TASK


def nothing_known() -> State:
    contract = Contract(kind="bugfix", goal="add adds", acceptance_criteria=[])
    meter = cast(Meter, None)  # planning makes no calls here
    return State(
        TASK,
        FullProfile(),
        Repository([]),
        ToolSettings(),
        meter,
        Probe(True),
        contract=contract,
    )


def test_a_recorded_map_is_where_it_was() -> None:
    """Prompts of an attempt that was begun with a map stay the same, so that it continues."""
    state = nothing_known()
    assert list(state.as_facts("task", "contract", "brief")) == ["task", "contract", "brief"]
    state.repository = Repository([], map="src/a.py")
    assert list(state.as_facts("task", "contract", "brief")) == [
        *("task", "contract", "repository_map", "brief")
    ]
    assert list(state.as_facts("task", "context"))[1] == "repository_map"


def test_facts_have_a_normal_form() -> None:
    """White space and repetition do not make a new fact, and only the latest forty are kept."""
    state = nothing_known()
    adopt(state, PlanTurn(facts=["add  subtracts", "  "], backlog=["x"], done=False))
    adopt(state, PlanTurn(facts=["add\nsubtracts", "y" * 9_999], backlog=[], done=False))
    assert state.facts == ["add subtracts", "y" * 500]
    adopt(state, PlanTurn(facts=[f"fact {n}" for n in range(100)], backlog=[], done=False))
    assert state.facts == [f"fact {n}" for n in range(60, 100)]


def test_done_counts_only_without_further_work() -> None:
    """Planning is done if the planner says so and leaves neither a backlog nor another step."""
    state = nothing_known()
    assert is_done(state, PlanTurn(backlog=[], done=True))
    assert not is_done(state, PlanTurn(backlog=[], done=False))
    assert not is_done(state, PlanTurn(backlog=["x"], done=True))
    step = NextStep.model_validate(STEP)
    assert not is_done(state, PlanTurn(backlog=[], done=True, next_step=step))
