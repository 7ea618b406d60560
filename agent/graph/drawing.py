"""A graph as text: an indented list, or a Mermaid flowchart."""

from collections import defaultdict
from collections.abc import Iterable

from agent.graph.state import ExecutionStateGraph, Node

_MARKS = {"pending": "…", "executed": " ", "stale": "~", "failed": "!"}
_LABEL_CHARS = 60


def as_tree(graph: ExecutionStateGraph) -> str:
    """Return a line per step, indented by scope: state, place, label, cost and inputs.

    With a step that it uses, the line has the files that this one left; after `reads`, others.

    `~` marks a stale step, `!` a failed one, `…` one without a result.
    """
    used: dict[str, list[str]] = defaultdict(list)
    before: dict[str, str] = {}
    latest: dict[str, str] = {}
    for node in graph.nodes:
        scope = _scope(node.id)
        before[node.id] = latest.get(scope, "")
        latest[scope] = node.id
    unwritten = {node.id: _files(node.reads) for node in graph.nodes}
    for source, target, carried in graph.edges:
        files = _files(carried)
        unwritten[target] = [path for path in unwritten[target] if path not in files]
        if files or source != before[target]:  # that one is the line above it
            used[target].append(f"{source} ({', '.join(files)})" if files else source)
    return "\n".join(_line(node, used[node.id], unwritten[node.id]) for node in graph.nodes)


def as_mermaid(graph: ExecutionStateGraph) -> str:
    """Return a Mermaid flowchart, with separate colours for stale and failed steps."""
    names = {node.id: f"s{index}" for index, node in enumerate(graph.nodes)}
    lines = ["flowchart TD"]
    for node in graph.nodes:
        state = "" if node.state == "executed" else f":::{node.state}"
        lines.append(f'    {names[node.id]}["{_quote(f"{node.id} {node.label}")}"]{state}')
    for source, target, variables in graph.edges:
        kinds = ", ".join(sorted({variable.partition(":")[0] for variable in variables}))
        lines.append(f"    {names[source]} -->|{kinds}| {names[target]}")
    lines.append("    classDef stale fill:#fde68a")
    lines.append("    classDef failed fill:#fecaca")
    lines.append("    classDef pending stroke-dasharray: 4")
    return "\n".join(lines)


def _files(names: Iterable[str]) -> list[str]:
    return sorted(name.removeprefix("file:") for name in names if name.startswith("file:"))


def _line(node: Node, used: list[str], unwritten: list[str]) -> str:
    depth = "  " * (_scope(node.id).count("/") + 1 if _scope(node.id) else 0)
    cost = f"  ${node.cost_usd:.4f}" if node.cost_usd else ""
    if node.cost_usd is None:
        cost = "  cost unknown"
    uses = f"  uses {', '.join(used)}" if used else ""
    reads = f"  reads {_short(', '.join(unwritten))}" if unwritten else ""
    wrote = f"  wrote {_short(', '.join(files))}" if (files := _files(node.writes)) else ""
    line = f"{_MARKS[node.state]} {depth}{node.id:<4} {_short(node.label)}{cost}"
    return f"{line}{uses}{reads}{wrote}".rstrip()


def _scope(step: str) -> str:
    return step.rpartition("/")[0]


def _short(label: str) -> str:
    text = " ".join(label.split())
    return text if len(text) <= _LABEL_CHARS else f"{text[: _LABEL_CHARS - 1]}…"


def _quote(label: str) -> str:
    text = _short(label)
    for sign, name in (("&", "amp"), ('"', "quot"), ("<", "lt"), (">", "gt")):
        text = text.replace(sign, f"&{name};")
    return text
