"""The graph of a recorded attempt."""

import json
from datetime import UTC, datetime
from typing import Any

from agent.graph.attempt import graph_of
from agent.graph.drawing import as_mermaid, as_tree
from agent.journal import Inputs, RecordedStep, TreeRef

BASE, EDITED = TreeRef("", ""), TreeRef("t1", "d1")


def step(
    ordinal: int,
    place: str,
    request: dict[str, Any],
    result: dict[str, Any],
    *,
    at: TreeRef = BASE,
    tree: TreeRef | None = None,
    bench: str | None = None,
) -> RecordedStep:
    scope, _, seq = place.rpartition("/")
    kind = "model" if "role" in request else "action"
    return RecordedStep(
        scope,
        int(seq),
        kind,
        "digest",
        json.dumps(request).encode(),
        json.dumps(result).encode(),
        0.5 if kind == "model" else 0.0,
        datetime.now(UTC),
        1.0,
        tree,
        ordinal,
        bench=bench,
        inputs=Inputs(at, "i"),
    )


def tool(name: str, **arguments: Any) -> dict[str, Any]:
    return {"action": "tool", "tool": name, "arguments": json.dumps(arguments)}


STEPS = [
    step(1, "0", {"role": "solver"}, {"message": {}}),
    step(2, "1", tool("edit", path="a.py"), {"content": {"changed": ["a.py"]}}, tree=EDITED),
    step(3, "branch/0", {"role": "reviewer"}, {"message": {}}),
    step(4, "branch/1", tool("read", path="a.py"), {"content": {"changed": []}}, at=EDITED),
    step(5, "2", tool("read", path="b.py"), {"content": {"changed": []}}, at=EDITED),
    step(6, "3", {"role": "solver"}, {"cut_off": "out of time", "why": "time"}),
]


def test_edges_are_talk_trees_and_files() -> None:
    """A step uses its conversation, the tree at which it began and the files that it names."""
    made = graph_of(STEPS)
    edges = {(source, target): set(carried) for source, target, carried in made.edges}
    assert edges == {
        ("0", "1"): {"talk:"},
        ("1", "branch/0"): {"talk:"},
        ("branch/0", "branch/1"): {"talk:branch"},
        ("1", "branch/1"): {"tree:t1", "file:a.py"},
        ("1", "2"): {"talk:", "tree:t1"},
        ("branch/1", "2"): {"talk:branch"},
        ("2", "3"): {"talk:"},
    }
    assert made.get_node("3").state == "failed"
    assert made.mark_stale(["branch/0"]) == ["branch/0", "branch/1", "2", "3"]


def test_a_graph_is_drawn_as_list_and_flowchart() -> None:
    """The list shows the state and what a step uses; the flowchart has every edge."""
    made = graph_of(STEPS, lambda each: f'{each.kind} "<b>"')
    made.mark_stale(["2"])
    lines = as_tree(made).splitlines()
    assert lines[0] == '  0    model "<b>"  $0.5000'
    assert lines[1] == '  1    action "<b>"  reads a.py  wrote a.py'
    assert lines[3] == '    branch/1 action "<b>"  uses 1 (a.py)'
    assert lines[4] == '~ 2    action "<b>"  uses branch/1  reads b.py'
    chart = as_mermaid(made)
    assert '    s4["2 action &quot;&lt;b&gt;&quot;"]:::stale' in chart
    assert "    s1 -->|file, tree| s3" in chart


def test_files_are_those_that_tools_reported() -> None:
    """A tool says what it read, whatever it was asked for; a folder stands for all in it."""
    wrote = {"content": {"changed": ["src/a.py", "b.py"]}}
    found = {"content": {"changed": [], "read": ["src/a.py"]}}
    made = graph_of(
        [
            step(1, "0", tool("run_command", command="make"), wrote, tree=EDITED),
            step(2, "one/0", tool("search", pattern="x", path="."), found, at=EDITED),
            step(3, "two/0", tool("read", path="src"), {"content": {"read": ["src/"]}}, at=EDITED),
            step(4, "all/0", tool("read", path="."), {"content": {"read": ["./"]}}, at=EDITED),
            step(5, "old/0", tool("read", path="./src/../b.py"), {"content": {}}, at=EDITED),
        ]
    )
    edges = {
        target: {each for each in carried if "file" in each} for _, target, carried in made.edges
    }
    assert edges == {
        "one/0": {"file:src/a.py"},
        "two/0": {"file:src/a.py"},
        "all/0": {"file:src/a.py", "file:b.py"},
        "old/0": {"file:b.py"},
    }


def call(ordinal: int, place: str, prompt: str, answer: str) -> RecordedStep:
    """Return a model call that answers with a tool."""
    asked = {"role": "r", "messages": [{"role": "user", "content": prompt}]}
    function = {"name": "answer", "arguments": json.dumps({"summary": answer})}
    message = {"role": "assistant", "content": None, "tool_calls": [{"function": function}]}
    return step(ordinal, place, asked, {"message": message})


def list_edges(*steps: RecordedStep) -> set[tuple[str, str]]:
    return {(source, target) for source, target, _ in graph_of(steps).edges}


def test_a_prompt_uses_the_answers_that_it_quotes() -> None:
    """An answer is used where it is quoted, in whatever scope; the task is nobody's answer."""
    task = "The index must be sorted by name"
    found = "Sorting happens in one place only"
    edges = list_edges(
        call(1, "explore/0", task, f"{task}. {found}"),
        call(2, "ask/0", task, "Nobody wants to know about it"),
        call(3, "plan/0", f"## task\n{task}\n## findings\n- {found}", "Sort by name"),
        call(4, "build/0", f"## task\n{task}\n- title: Sort by name", "done"),
    )
    assert edges == {("explore/0", "plan/0"), ("plan/0", "build/0")}


def test_isolated_branches_share_nothing() -> None:
    """Neither files, trees nor words pass from one candidate to another, ended or not."""
    change, told = tool("edit", path="a.py"), "The function now returns the list"
    work = [
        item
        for number, name in enumerate(("c-0", "c-1"))
        for item in (
            call(10 * number + 1, f"{name}/0", "Return the list", told),
            step(
                10 * number + 2,
                f"{name}/1",
                change,
                {"content": {"changed": ["a.py"], "output": told}},
                tree=EDITED,
                bench=name,
            ),
            step(
                10 * number + 3,
                f"{name}/2",
                tool("read", path="a.py"),
                {"content": {}},
                at=EDITED,
                bench=name,
            ),
            call(10 * number + 4, f"{name}/3", told, told),
        )
    ]
    take = {"action": "take", "tree": str(EDITED)}
    chosen = step(30, "0", take, {"content": None}, tree=EDITED, bench="")
    after = step(31, "1", tool("read", path="a.py"), {"content": {}}, at=EDITED, bench="")
    edges = list_edges(*work, chosen, after)
    assert not {(one, other) for one, other in edges if {one[:3], other[:3]} == {"c-0", "c-1"}}
    assert {("c-1/1", "0"), ("0", "1"), ("c-1/1", "1")} <= edges
