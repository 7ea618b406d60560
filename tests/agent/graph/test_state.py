"""The execution-state graph."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.graph import ExecutionStateGraph


def diamond() -> ExecutionStateGraph:
    made = ExecutionStateGraph()
    for step in "abcde":
        made.add_step(step, state="executed")
    made.add_edge("a", "b", {"x"})
    made.add_edge("a", "c", {"y"})
    made.add_edge("b", "d", {"u"})
    made.add_edge("c", "d", {"v"})
    made.add_edge("c", "d", {"w"})
    return made


def test_a_change_makes_stale_what_depends_on_it() -> None:
    """Marking returns what became stale, in order. Ancestors are found in the other direction."""
    made = diamond()
    assert made.get_ancestors("d") == ["a", "b", "c"]
    assert made.mark_stale(["b"]) == ["b", "d"]
    assert made.get_node("a").state == made.get_node("e").state == "executed"
    assert made.mark_stale(["a"]) == ["a", "c"]


def test_a_step_that_has_not_run_stays_pending_and_a_failed_one_becomes_stale() -> None:
    """Only steps with a result can be stale."""
    made = ExecutionStateGraph()
    made.add_step("a")
    made.add_step("b", state="failed")
    made.add_edge("a", "b")
    assert made.mark_stale(["a"]) == ["b"]
    assert made.get_node("a").state == "pending"


def test_unknown_steps_and_backward_edges_are_refused() -> None:
    """A mistake is named at once."""
    made = diamond()
    with pytest.raises(ValueError, match="no step 'z'"):
        made.mark_stale(["z"])
    with pytest.raises(ValueError, match="nothing flows from 'd' back to 'a'"):
        made.add_edge("d", "a")
    with pytest.raises(ValueError, match="nothing flows from 'a' back to 'a'"):
        made.add_edge("a", "a")
    with pytest.raises(ValueError, match="has a step 'a' already"):
        made.add_step("a")


def test_a_graph_as_json() -> None:
    """Edges are sorted by target and source, and join the variables of one pair of steps."""
    content = json.loads(diamond().to_json())
    assert content["edges"] == [
        {"source": "a", "target": "b", "variables": ["x"]},
        {"source": "a", "target": "c", "variables": ["y"]},
        {"source": "b", "target": "d", "variables": ["u"]},
        {"source": "c", "target": "d", "variables": ["v", "w"]},
    ]
    assert [step["id"] for step in content["steps"]] == list("abcde")
    assert content["steps"][0]["state"] == "executed"


EDGES = st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=40)


@given(EDGES, st.integers(0, 11))
def test_staleness_is_reachability(pairs: list[tuple[int, int]], changed: int) -> None:
    """Stale is exactly what can be reached."""
    made = ExecutionStateGraph()
    for number in range(12):
        made.add_step(str(number), state="executed")
    forward = [pair for pair in pairs if pair[0] < pair[1]]
    for source, target in forward:
        made.add_edge(str(source), str(target))
    reached = {changed}
    for _ in range(12):
        reached |= {target for source, target in forward if source in reached}
    assert made.mark_stale([str(changed)]) == [str(number) for number in sorted(reached)]
