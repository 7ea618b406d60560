"""The steps of a pipeline as a drawing: layers from top to bottom, and lines between them."""

from collections.abc import Mapping
from dataclasses import dataclass

from flows.jobs.pipelines.definition import Pipeline

WIDTH, HEIGHT = 156, 46
_GAP, _BETWEEN, _MARGIN = 20, 44, 8
_SHOWN_CHARACTERS = 18


@dataclass(frozen=True)
class DagNode:
    """One step."""

    name: str
    label: str
    """The name, cut if it is long."""
    state: str
    """Empty for a definition."""
    x: int
    y: int


@dataclass(frozen=True)
class Edge:
    """A line from a step to one that depends on it."""

    x1: int
    y1: int
    x2: int
    y2: int

    @property
    def path(self) -> str:
        """The line as the path of an SVG."""
        middle = (self.y1 + self.y2) // 2
        start, end = f"M{self.x1} {self.y1}", f"{self.x2} {self.y2}"
        return f"{start} C{self.x1} {middle} {self.x2} {middle} {end}"


@dataclass(frozen=True)
class Dag:
    """A drawing and its size."""

    nodes: tuple[DagNode, ...]
    edges: tuple[Edge, ...]
    width: int
    height: int


def draw(pipeline: Pipeline, states: Mapping[str, str]) -> Dag:
    """Return the drawing of a pipeline. `states` are those of its steps in a run."""
    layers = pipeline.layers
    widest = max(len(layer) for layer in layers)
    width = widest * (WIDTH + _GAP) - _GAP + 2 * _MARGIN
    nodes: dict[str, DagNode] = {}
    for row, layer in enumerate(layers):
        left = (width - (len(layer) * (WIDTH + _GAP) - _GAP)) // 2
        for column, step in enumerate(layer):
            x, y = left + column * (WIDTH + _GAP), _MARGIN + row * (HEIGHT + _BETWEEN)
            state = states.get(step.name, "")
            nodes[step.name] = DagNode(step.name, _cut(step.name), state, x, y)
    edges = [
        _edge(nodes[before], nodes[step.name])
        for step in pipeline.steps
        for before in step.depends_on
    ]
    height = len(layers) * (HEIGHT + _BETWEEN) - _BETWEEN + 2 * _MARGIN
    return Dag(tuple(nodes.values()), tuple(edges), width, height)


def _edge(before: DagNode, after: DagNode) -> Edge:
    middle = WIDTH // 2
    return Edge(before.x + middle, before.y + HEIGHT, after.x + middle, after.y)


def _cut(name: str) -> str:
    return name if len(name) <= _SHOWN_CHARACTERS else f"{name[: _SHOWN_CHARACTERS - 1]}…"
