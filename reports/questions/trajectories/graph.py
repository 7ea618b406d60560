"""The graph of an attempt as an inline SVG: a line for each step, and an arc for each use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from reports.steps import GraphStep

MOST = 400
"""Maximum number of steps that are drawn; more could not be read."""

_ROW, _LEFT, _INDENT, _WIDTH = 18, 150, 14, 900
_LABEL_CHARS = 90


def draw(graph: Sequence[GraphStep], numbers: Mapping[str, int]) -> str:
    """Return the drawing of up to `MOST` steps. `numbers` are by place of a step."""
    steps = graph[:MOST]
    rows = {step.place: row for row, step in enumerate(steps)}
    parts = [*_arcs(steps, rows), *(_line(step, rows[step.place], numbers) for step in steps)]
    height = _ROW * len(steps) + 8
    return (
        f'<svg class="graph" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        f'role="img" aria-label="what each step uses">{"".join(parts)}</svg>'
    )


def _arcs(steps: Sequence[GraphStep], rows: Mapping[str, int]) -> Iterator[str]:
    """Yield an arc for each use, except of the step in the line above of the same scope."""
    for step in steps:
        for used in step.uses:
            if used not in rows:
                continue
            first, second = rows[used], rows[step.place]
            if second - first == 1 and _scope(used) == _scope(step.place):
                continue
            top, bottom = _middle(first), _middle(second)
            bend = max(_LEFT - 12 - 6 * (second - first), 6)
            yield (
                f'<path class="use" d="M{_LEFT} {top} C{bend} {top} {bend} {bottom} '
                f'{_LEFT} {bottom}"><title>{escape(f"{step.place} uses {used}")}</title></path>'
            )


def _line(step: GraphStep, row: int, numbers: Mapping[str, int]) -> str:
    middle = _middle(row)
    at = _LEFT + _INDENT * (_scope(step.place).count("/") + bool(_scope(step.place)))
    text = " ".join(f"{step.place} {step.label}".split())
    if len(text) > _LABEL_CHARS:
        text = f"{text[: _LABEL_CHARS - 1]}…"
    drawing = (
        f'<circle class="{escape(step.state)}" cx="{_LEFT}" cy="{middle}" r="4"/>'
        f'<text x="{at + 10}" y="{middle + 4}">{escape(text)}</text>'
    )
    number = numbers.get(step.place)
    return drawing if number is None else f'<a href="#step-{number}">{drawing}</a>'


def _middle(row: int) -> int:
    return row * _ROW + _ROW // 2 + 4


def _scope(place: str) -> str:
    return place.rpartition("/")[0]
