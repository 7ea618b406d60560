"""All figures of a page."""

from __future__ import annotations

from collections.abc import Mapping

from reports.rendering.budget_figures import draw_budgets
from reports.rendering.drawing import Figure
from reports.rendering.effort_figures import draw_effort
from reports.rendering.figures import draw_cost, draw_resolution, draw_spending
from reports.rendering.lead_figure import draw_lead
from reports.rendering.pair_figures import draw_pairs
from reports.rendering.worth_figures import draw_worth
from reports.types import Report

Figures = Mapping[str, tuple[Figure, ...]]
"""Figures by the section of the page that shows them."""

_DRAW = {
    "lead": draw_lead,
    "resolution": draw_resolution,
    "cost": draw_cost,
    "spending": draw_spending,
    "worth": draw_worth,
    "budget": draw_budgets,
    "effort": draw_effort,
    "pairs": draw_pairs,
}


def draw_all(report: Report) -> Figures:
    """Draw the figures of all sections of a page."""
    return {section: draw(report) for section, draw in _DRAW.items()}
