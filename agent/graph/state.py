"""The execution-state graph: steps, the flows between them, and the stale steps."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Literal

State = Literal["pending", "executed", "stale", "failed"]
"""`pending`: not run yet. `stale`: something that it reads has changed since it ran."""


@dataclass
class Node:
    """One step of a graph."""

    id: str
    state: State
    reads: list[str]
    """Names of its inputs, such as variables, files and models."""
    writes: list[str]
    label: str
    cost_usd: float | None
    """None if it is unknown."""
    duration_s: float


class ExecutionStateGraph:
    """Steps in the order in which they run, with an edge for each flow from one to a later one."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._order: dict[str, int] = {}
        self._flows: dict[str, dict[str, frozenset[str]]] = {}
        """By step, the steps that it depends on, with the variables that flow from each."""

    def __len__(self) -> int:
        return len(self._nodes)

    def add_step(
        self,
        step: str,
        *,
        reads: Iterable[str] = (),
        writes: Iterable[str] = (),
        state: State = "pending",
        label: str = "",
        cost_usd: float | None = 0.0,
        duration_s: float = 0.0,
    ) -> None:
        """Add a step behind all others.

        Raises:
            ValueError: the graph has a step of that id.
        """
        if step in self._nodes:
            raise ValueError(f"the graph has a step {step!r} already")
        self._order[step] = len(self._nodes)
        self._nodes[step] = Node(
            step, state, sorted(reads), sorted(writes), label, cost_usd, duration_s
        )
        self._flows[step] = {}

    def add_edge(self, source: str, target: str, variables: Iterable[str] = ()) -> None:
        """Let `variables` flow from one step to a later one, in addition to earlier ones.

        Raises:
            ValueError: the graph has no such step, or the target does not come after the source.
        """
        if self.position(source) >= self.position(target):
            raise ValueError(f"nothing flows from {source!r} back to {target!r}")
        flows = self._flows[target]
        flows[source] = flows.get(source, frozenset()) | frozenset(variables)

    def get_node(self, step: str) -> Node:
        """Return a step.

        Raises:
            ValueError: the graph has no such step.
        """
        if step not in self._nodes:
            raise ValueError(f"the graph has no step {step!r}")
        return self._nodes[step]

    @property
    def nodes(self) -> list[Node]:
        """All steps, in order."""
        return list(self._nodes.values())

    @property
    def edges(self) -> list[tuple[str, str, frozenset[str]]]:
        """All edges with their variables, by the order of their targets, then of their sources."""
        return [
            (source, target, flows[source])
            for target, flows in self._flows.items()
            for source in sorted(flows, key=self._order.__getitem__)
        ]

    def get_flows(self, step: str) -> Mapping[str, frozenset[str]]:
        """Return the steps that a step uses directly, with the variables that flow from each."""
        return self._flows[self.get_node(step).id]

    def position(self, step: str) -> int:
        """Return the place of a step in their order.

        Raises:
            ValueError: the graph has no such step.
        """
        return self._order[self.get_node(step).id]

    def get_ancestors(self, step: str) -> list[str]:
        """Return the steps that a step depends on, in order.

        Raises:
            ValueError: the graph has no such step.
        """
        ancestors: set[str] = set()
        todo = list(self.get_flows(step))
        while todo:
            source = todo.pop()
            if source not in ancestors:
                ancestors.add(source)
                todo += self._flows[source]
        return [step for step in self._nodes if step in ancestors]

    def mark_stale(self, ids: Iterable[str]) -> list[str]:
        """Mark steps and all that depends on them as stale. Return the steps that became stale.

        A step that has not run stays pending.

        Raises:
            ValueError: the graph has no such step.
        """
        reached = {self.get_node(step).id for step in ids}
        became = []
        for step, node in self._nodes.items():
            if step not in reached and reached.isdisjoint(self._flows[step]):
                continue
            reached.add(step)
            if node.state in ("executed", "failed"):
                node.state = "stale"
                became.append(step)
        return became

    def replay_from(self, step: str) -> list[str]:
        """Return a step and all that depend on it, in the order in which they run again.

        Raises:
            ValueError: the graph has no such step.
        """
        return [self.get_node(step).id, *(s for s in self._nodes if step in self.get_ancestors(s))]

    def to_json(self) -> str:
        """Return the graph as JSON text."""
        edges = [
            {"source": source, "target": target, "variables": sorted(variables)}
            for source, target, variables in self.edges
        ]
        return json.dumps({"steps": [asdict(node) for node in self.nodes], "edges": edges})
