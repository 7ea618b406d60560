"""The execution-state graph: steps, what flows between them, and which of them are stale."""

import heapq
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    pass

State = Literal["pending", "executed", "stale", "failed"]
"""`pending`: not run yet. `stale`: something that it reads has changed since it ran."""


@dataclass
class Node:
    """One step of a graph."""

    id: str
    state: State = "pending"
    reads: list[str] = field(default_factory=list)
    """Names of its inputs, such as variables, files and models."""
    writes: list[str] = field(default_factory=list)
    outputs: dict[str, str] = field(default_factory=dict)
    """Digests or short values of what it wrote, by name."""
    label: str = ""
    cost_usd: float | None = 0.0
    """None if it is unknown."""
    duration_s: float = 0.0


class ExecutionStateGraph:
    """Steps in the order in which they were added, with an edge for each flow between two."""

    def __init__(self) -> None:
        import networkx as nx

        self.graph: nx.DiGraph[str] = nx.DiGraph()
        """Nodes are ids, with a `node`; edges have the `variables` that flow along them."""
        self._order: dict[str, int] = {}
        self._has_backward_edges = False

    def __len__(self) -> int:
        return len(self._order)

    def add_step(
        self,
        step: str,
        *,
        reads: Iterable[str] = (),
        writes: Iterable[str] = (),
        label: str = "",
        cost_usd: float | None = 0.0,
        duration_s: float = 0.0,
    ) -> Node:
        """Add a pending step behind all others.

        Raises:
            ValueError: the graph has a step of that id.
        """
        if step in self._order:
            raise ValueError(f"the graph has a step {step!r} already")
        node = Node(
            step,
            reads=sorted(reads),
            writes=sorted(writes),
            label=label,
            cost_usd=cost_usd,
            duration_s=duration_s,
        )
        self._order[step] = len(self._order)
        self.graph.add_node(step, node=node)
        return node

    def record_output(
        self,
        step: str,
        outputs: Mapping[str, str] | None = None,
        *,
        failed: bool = False,
    ) -> None:
        """Note that a step has run, and what it wrote.

        Raises:
            ValueError: the graph has no such step.
        """
        node = self.get_node(step)
        node.state = "failed" if failed else "executed"
        node.outputs = dict(outputs or {})

    def add_edge(self, source: str, target: str, variables: Iterable[str] = ()) -> None:
        """Let `variables` flow from one step to another. They join those of an earlier edge.

        Raises:
            ValueError: the graph has no such step, or the edge would close a cycle.
        """
        import networkx as nx

        first, second = self._place(source), self._place(target)
        is_backward = first >= second
        may_cycle = is_backward or self._has_backward_edges
        if may_cycle and (source == target or nx.has_path(self.graph, target, source)):
            raise ValueError(f"an edge from {source!r} to {target!r} would close a cycle")
        self._has_backward_edges |= is_backward
        known = self.graph.get_edge_data(source, target, {}).get("variables", frozenset())
        self.graph.add_edge(source, target, variables=frozenset(variables) | known)

    def get_node(self, step: str) -> Node:
        """Return a step.

        Raises:
            ValueError: the graph has no such step.
        """
        self._place(step)
        node: Node = self.graph.nodes[step]["node"]
        return node

    @property
    def nodes(self) -> list[Node]:
        """All steps, in the order in which they were added."""
        return [self.graph.nodes[step]["node"] for step in self._order]

    @property
    def edges(self) -> list[tuple[str, str, frozenset[str]]]:
        """All edges with their variables, by the order of their steps."""
        found = self.graph.edges(data="variables")
        return sorted(found, key=lambda edge: (self._order[edge[1]], self._order[edge[0]]))

    def get_ancestors(self, step: str, variables: Iterable[str] | None = None) -> list[str]:
        """Return the steps that a step depends on, in order.

        With `variables`, only those through which they reached the step.

        Raises:
            ValueError: the graph has no such step.
        """
        import networkx as nx

        self._place(step)
        if variables is None:
            return self._sorted(nx.ancestors(self.graph, step))
        wanted = frozenset(variables)
        found: set[str] = set()
        for source, _, carried in self.graph.in_edges(step, data="variables"):
            if carried & wanted and source not in found:
                found |= {source} | nx.ancestors(self.graph, source)
        return self._sorted(found)

    def get_subgraph_from(self, step: str) -> "ExecutionStateGraph":
        """Return a copy with a step and all that depends on it.

        Raises:
            ValueError: the graph has no such step.
        """
        kept = set(self._behind([step]))
        content = self.to_dict()
        return ExecutionStateGraph.from_dict(
            {
                "steps": [step for step in content["steps"] if step["id"] in kept],
                "edges": [e for e in content["edges"] if {e["source"], e["target"]} <= kept],
            }
        )

    def mark_stale(
        self, ids: str | Iterable[str], variables: Iterable[str] | None = None
    ) -> list[str]:
        """Mark steps and all that depends on them as stale. Return those that became stale.

        With `variables`, the steps themselves keep their state, and only what those variables
        reach becomes stale. A step that has not run stays pending.

        Raises:
            ValueError: the graph has no such step.
        """
        first = [ids] if isinstance(ids, str) else list(ids)
        if variables is not None:
            wanted = frozenset(variables)
            first = [
                target
                for step in first
                for _, target, carried in self.graph.out_edges(self._known(step), data="variables")
                if carried & wanted
            ]
        became = []
        for step in self._behind(first):
            node = self.get_node(step)
            if node.state in ("executed", "failed"):
                node.state = "stale"
                became.append(step)
        return became

    def replay_from(self, step: str | None = None) -> list[str]:
        """Return the stale steps in an order in which they can run again.

        With `id`, only that step and those that depend on it.

        Raises:
            ValueError: the graph has no such step.
        """
        among = self._order if step is None else self._behind([step])
        return [each for each in self._topological(among) if self.get_node(each).state == "stale"]

    def to_dict(self) -> dict[str, Any]:
        """Return the graph as JSON values."""
        return {
            "steps": [asdict(node) for node in self.nodes],
            "edges": [
                {"source": source, "target": target, "variables": sorted(variables)}
                for source, target, variables in self.edges
            ],
        }

    def to_json(self) -> str:
        """Return the graph as JSON text."""
        return json.dumps(self.to_dict())

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> "ExecutionStateGraph":
        """Return the graph that `to_dict` returned.

        Raises:
            ValueError: an edge names an unknown step or closes a cycle.
        """
        made = cls()
        for step in content["steps"]:
            node = Node(**step)
            made._order[node.id] = len(made._order)
            made.graph.add_node(node.id, node=node)
        for edge in content["edges"]:
            made.add_edge(edge["source"], edge["target"], edge["variables"])
        return made

    @classmethod
    def from_json(cls, text: str) -> "ExecutionStateGraph":
        """Return the graph that `to_json` returned."""
        return cls.from_dict(json.loads(text))

    def _place(self, step: str) -> int:
        if step not in self._order:
            raise ValueError(f"the graph has no step {step!r}")
        return self._order[step]

    def _known(self, step: str) -> str:
        self._place(step)
        return step

    def _sorted(self, ids: Iterable[str]) -> list[str]:
        return sorted(ids, key=self._order.__getitem__)

    def _behind(self, ids: Iterable[str]) -> list[str]:
        """Return steps and all that depends on them, in an order in which they can run."""
        found: set[str] = set()
        todo = [self._known(step) for step in ids]
        while todo:
            step = todo.pop()
            if step not in found:
                found.add(step)
                todo += self.graph.successors(step)
        return self._topological(found)

    def _topological(self, ids: Iterable[str]) -> list[str]:
        """Return steps in an order of the edges among them, and else of their addition."""
        among = set(ids)
        if not self._has_backward_edges:
            return self._sorted(among)
        open_edges = {
            step: sum(source in among for source in self.graph.predecessors(step)) for step in among
        }
        ready = [(self._order[step], step) for step, count in open_edges.items() if not count]
        heapq.heapify(ready)
        ordered = []
        while ready:
            _, step = heapq.heappop(ready)
            ordered.append(step)
            for target in self.graph.successors(step):
                if target in among:
                    open_edges[target] -= 1
                    if not open_edges[target]:
                        heapq.heappush(ready, (self._order[target], target))
        return ordered
