"""The best arm and its rivals, over all arms and over those of one model."""

import pytest

from reports.analysis.best import find_best, find_best_of_models
from reports.build import build
from reports.rendering import markdown
from tests.reports.lake_fixture import LakeBuilder
from tests.reports.many_arms import instance_ids, verdicts
from tests.reports.shown import section

RESOLVED = {
    ("mini", "small"): 10,
    ("durable", "small"): 20,
    ("mini", "large"): 38,
    ("durable", "large"): 39,
    ("alone", "other"): 5,
}
"""Number of the forty instances that an arm resolves, by harness and model."""


@pytest.fixture
def models(lake: LakeBuilder) -> LakeBuilder:
    """Write arms of two shared models, and one arm that has a model of its own."""
    for order, ((harness, model), number) in enumerate(RESOLVED.items()):
        lake.declare(
            [f"{harness}-{model}"], instance_ids(40), environment="imported", model=model,
            agent=harness, arm_order=order,
        )  # fmt: skip
        verdicts(lake, f"{harness}-{model}", [place < number for place in range(40)], [0.5] * 40)
    return lake


def test_each_model_has_a_line_with_its_own_correction(models: LakeBuilder) -> None:
    """The best model is first. p counts only the arms of the same model."""
    report = build(models.root, "trial")
    large, small = find_best_of_models(report)
    assert (large.arm.name, large.next.arm.name) == ("durable-large", "mini-large")
    assert (small.arm.name, small.next.arm.name) == ("durable-small", "mini-small")
    assert small.next.p_value == small.next.pair.p_value
    assert small.next.lead == 0.25
    assert [*section(report, "resolution").brief[:-1]] == [
        "large: durable-large 97.5 % at $0.500, no difference seen to mini-large (95.0 %; p = "
        f"{large.next.p_value:#.3g})",
        "small: durable-small 50.0 % at $0.500, more than mini-small (25.0 %; p = "
        f"{small.next.p_value:#.3g})",
    ]
    table = section(report, "resolution").tables[0]
    assert [row[0] for row in table.rows] == ["large", "small"]
    assert "The best arm of each model" in markdown.render(report)


def test_controls_and_arms_that_never_ran_are_no_rivals(lake: LakeBuilder) -> None:
    """The gold patch resolves everything and is never the best arm."""
    lake.declare(["gold"], ["i1"], agent="gold")
    lake.declare(["a", "b", "idle"], ["i1"], arm_order=1)
    for arm in ("gold", "a"):
        lake.cell(arm, "i1")
    lake.cell("b", "i1", "unresolved")
    report = build(lake.root, "trial")
    best = find_best(report, report.arms)
    assert best is not None
    assert (best.arm.name, [rival.arm.name for rival in best.rivals]) == ("a", ["b"])
