"""The axis of the cost distribution has enough ticks to read a cost."""

import pytest
from matplotlib.figure import Figure

from reports.rendering.drawing import log_or_linear, usd_axis


@pytest.mark.parametrize(
    "zeros",
    [[], [0.0], [0.0] * 5],
)
@pytest.mark.parametrize(
    "costs",
    [[0.02, 0.45], [0.11, 0.95, 2.5], [0.004, 0.009, 0.99], [1e-5, 3.0]],
    ids=["20", "23", "250", "300,000"],
)
def test_a_logarithmic_axis_has_several_named_ticks(costs: list[float], zeros: list[float]) -> None:
    """A logarithmic axis has at least three labels, even around a single power of ten.

    A cost of 0 does not take the room of the others.
    """
    costs = [*zeros, *costs]
    figure = Figure()
    axes = figure.subplots()
    axes.plot(costs, costs)
    usd_axis(axes)
    log_or_linear(axes, costs)
    figure.draw_without_rendering()
    low, high = axes.get_xlim()
    named = [tick for tick in axes.get_xticks() if low <= tick <= high]
    assert axes.get_xscale() == ("symlog" if zeros else "log")
    assert len(named) >= 3
    at = [axes.transLimits.transform(axes.transScale.transform((cost, 1)))[0] for cost in costs]
    assert max(at) - min(place for place, cost in zip(at, costs, strict=True) if cost) > 0.4
    assert all(place >= -1e-9 for place in at)
