"""The execution-state graph."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.graph import ExecutionStateGraph


def diamond() -> ExecutionStateGraph:
    made = ExecutionStateGraph()
    for step in "abcde":
        made.add_step(step)
        made.record_output(step, {step: "1"})
    made.add_edge("a", "b", {"x"})
    made.add_edge("a", "c", {"y"})
    made.add_edge("b", "d", {"u"})
    made.add_edge("c", "d", {"v"})
    return made


def test_a_change_makes_stale_what_depends_on_it() -> None:
    """Marking returns what became stale, and replaying lists it in order."""
    made = diamond()
    assert made.mark_stale("b") == ["b", "d"]
    assert made.mark_stale("a", ["y"]) == ["c"]
    assert made.replay_from() == ["b", "c", "d"]
    assert made.replay_from("c") == ["c", "d"]
    assert made.get_node("a").state == made.get_node("e").state == "executed"
    made.record_output("b", {"u": "2"})
    assert made.replay_from() == ["c", "d"]


def test_ancestors_by_variable_and_steps_behind() -> None:
    """Ancestors can be asked for by variable; the part behind a step is a graph of its own."""
    made = diamond()
    assert made.get_ancestors("d") == ["a", "b", "c"]
    assert made.get_ancestors("d", ["u"]) == ["a", "b"]
    part = made.get_subgraph_from("c")
    assert [node.id for node in part.nodes] == ["c", "d"]
    assert part.edges == [("c", "d", {"v"})]


def test_a_step_that_has_not_run_stays_pending_and_a_failed_one_becomes_stale() -> None:
    """Only steps with a result can be stale."""
    made = ExecutionStateGraph()
    made.add_step("a")
    made.add_step("b")
    made.add_edge("a", "b")
    made.record_output("b", failed=True)
    assert made.get_node("b").state == "failed"
    assert made.mark_stale(["a"]) == ["b"]
    assert made.get_node("a").state == "pending"


def test_unknown_steps_and_cycles_are_refused() -> None:
    """A mistake is named at once."""
    made = diamond()
    with pytest.raises(ValueError, match="no step 'z'"):
        made.mark_stale("z")
    with pytest.raises(ValueError, match="from 'd' to 'a' would close a cycle"):
        made.add_edge("d", "a")
    with pytest.raises(ValueError, match="from 'a' to 'a' would close a cycle"):
        made.add_edge("a", "a")
    with pytest.raises(ValueError, match="has a step 'a' already"):
        made.add_step("a")


EDGES = st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=40)


@given(EDGES, st.integers(0, 11))
def test_staleness_is_reachability(pairs: list[tuple[int, int]], changed: int) -> None:
    """Stale is exactly what can be reached, and the order of replaying respects every edge."""
    made = ExecutionStateGraph()
    for number in range(12):
        made.add_step(str(number))
        made.record_output(str(number))
    kept = []
    for source, target in pairs:
        try:
            made.add_edge(str(source), str(target))
        except ValueError:
            continue
        kept.append((source, target))
    reached, more = {changed}, True
    while more:
        new = {target for source, target in kept if source in reached} - reached
        reached |= new
        more = bool(new)
    assert {int(step) for step in made.mark_stale(str(changed))} == reached
    order = [int(step) for step in made.replay_from()]
    assert set(order) == reached
    for source, target in kept:
        if source in reached and target in reached:
            assert order.index(source) < order.index(target)


@given(EDGES)
def test_a_graph_survives_json(pairs: list[tuple[int, int]]) -> None:
    """A graph that was written and read is the same."""
    made = ExecutionStateGraph()
    for number in range(12):
        made.add_step(str(number), reads=["x"], writes=["y"], cost_usd=None, label="ünïcode")
    for source, target in pairs:
        if source < target:
            made.add_edge(str(source), str(target), {"x"})
    made.record_output("3", {"y": "7"})
    made.mark_stale("3")
    again = ExecutionStateGraph.from_json(made.to_json())
    assert again.to_dict() == made.to_dict()
