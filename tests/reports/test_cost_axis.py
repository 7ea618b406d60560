"""The axis of the cost distribution has enough ticks to read a cost."""

import pytest
from matplotlib.figure import Figure

from reports.rendering.drawing import log_or_linear, usd_axis


@pytest.mark.parametrize(
    "costs",
    [[0.02, 0.45], [0.11, 0.95, 2.5], [0.004, 0.009, 0.99], [1e-5, 3.0]],
    ids=["20", "23", "250", "300,000"],
)
def test_a_logarithmic_axis_has_several_named_ticks(costs: list[float]) -> None:
    """A logarithmic axis has at least three labels, even around a single power of ten."""
    figure = Figure()
    axes = figure.subplots()
    axes.plot(costs, costs)
    usd_axis(axes)
    log_or_linear(axes, costs)
    figure.draw_without_rendering()
    low, high = axes.get_xlim()
    named = [tick for tick in axes.get_xticks() if low <= tick <= high]
    assert axes.get_xscale() == "log"
    assert len(named) >= 3
