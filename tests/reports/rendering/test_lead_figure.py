"""The first figure: names at the points, models as colours, harnesses as shapes."""

import re

import pytest

from reports.build import build
from reports.questions.resolution.lead_figure import draw_lead
from tests.reports.lake_fixture import LakeBuilder
from tests.reports.many_arms import instance_ids, verdicts

LONG = "20240612_a_harness_with_a_name_of_46_characters"


def write(lake: LakeBuilder, *arms: tuple[str, str, str], least: int = 10) -> None:
    """Write arms of these names, harnesses and models. Each resolves more for more."""
    for order, (arm, harness, model) in enumerate(arms):
        lake.declare(
            [arm], instance_ids(20), environment="imported", agent=harness, model=model,
            arm_order=order,
        )  # fmt: skip
        resolved = [place < least + order for place in range(20)]
        verdicts(lake, arm, resolved, [0.1 * (1 + order)] * 20)


def texts(svg: str) -> list[str]:
    """Return all texts of a drawing."""
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


@pytest.mark.parametrize("name", ["short", LONG, "模型-🚀"])
def test_the_points_have_their_names(lake: LakeBuilder, name: str) -> None:
    """Every arm of few has its name in the figure and, with its numbers, as a tooltip."""
    write(lake, ("quick", "h", "m"), ("middle", "h", "m"), (name, "h", "m"))
    (drawn,) = draw_lead(build(lake.root, "trial"))
    assert {"quick", "middle", name} <= {*texts(drawn.svg)}
    assert f"<title>{name}: $0.300, 60.0 %</title>" in drawn.svg
