"""Labels of the axes of figures."""

import re
from itertools import pairwise

import pytest

from reports.rendering.drawing import Figure, log_axis, log_or_linear, usd_axis

CHARACTER = 5.5
"""Least width of a character of a label, in the units of the drawing."""


@pytest.mark.parametrize(
    "costs", [[0.004], [0.0041, 0.0043], [0.0, 0.0123], [0.0, 0.002, 3.0], [0.001, 70.0], [5e6]]
)
def test_labels_of_costs_do_not_overlap(costs: list[float]) -> None:
    """Whatever the costs are."""

    def draw(axes: object) -> None:
        axes.plot(costs, [1] * len(costs), "o")  # type: ignore[attr-defined]
        usd_axis(axes)  # type: ignore[arg-type]
        log_or_linear(axes, costs)  # type: ignore[arg-type]

    assert_apart(Figure("f", "f", "", "", 2.0, draw))


@pytest.mark.parametrize(
    "limits", [(0.00308, 0.0052), (1.54, 2.6), (0.02, 3), (0.1, 1e6), (0.00012, 0.00013)]
)
def test_labels_of_a_logarithmic_axis_do_not_overlap(limits: tuple[float, float]) -> None:
    """A short axis has several, and no more than fit."""

    def draw(axes: object) -> None:
        axes.set_xscale("log")  # type: ignore[attr-defined]
        axes.set_xlim(*limits)  # type: ignore[attr-defined]
        log_axis(axes)  # type: ignore[arg-type]

    assert_apart(Figure("f", "f", "", "", 2.0, draw))


def assert_apart(figure: Figure) -> None:
    """Check that there are several labels in dollars, each to the right of the one before it."""
    found = re.findall(r'translate\(([\d.]+) [\d.]+\)"[^>]*>(\$[^<]*)<', figure.svg)
    found += re.findall(r'<text[^>]*\bx="([\d.]+)"[^>]*>(\$[^<]*)<', figure.svg)
    labels = sorted((float(x), len(label) * CHARACTER / 2) for x, label in found)
    assert len(labels) >= 2
    for (x, half), (following, other) in pairwise(labels):
        assert x + half < following - other, found
