"""The first figure: names at the points, models as colours, harnesses as shapes."""

import re

import pytest

from reports.build import build
from reports.questions.resolution.lead_figure import HARNESSES, draw_lead
from reports.rendering import page
from tests.reports.lake_fixture import LakeBuilder
from tests.reports.many_arms import fill, instance_ids, verdicts

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


def test_models_are_colours_and_harnesses_shapes(lake: LakeBuilder) -> None:
    """The legend names both, and a model has one colour whatever its harness."""
    pairs = [(f"{h}-{m}", h, m) for m in ("small", "large") for h in ("mini", "durable")]
    write(lake, *pairs)
    (drawn,) = draw_lead(build(lake.root, "trial"))
    assert {"mini", "durable", "small", "large"} <= {*texts(drawn.svg)}
    assert "Colour: model. Shape: harness." in drawn.caption
    colours = {
        title: re.findall(r"var\(--arm-\d", group)
        for title, group in re.findall(r"<title>([^:]+): [^<]*</title>(.*?)</g>\n", drawn.svg, re.S)
    }
    assert {*colours} == {name for name, _, _ in pairs}


def test_no_two_harnesses_of_a_legend_have_one_shape(lake: LakeBuilder) -> None:
    """Those of the fewest arms share the shape of all others, as models share a colour."""
    write(lake, *((f"arm{n}", f"h{n}", f"m{n}") for n in range(HARNESSES + 3)))
    (drawn,) = draw_lead(build(lake.root, "trial"))
    shown = texts(drawn.svg)
    assert sum(f"h{n}" in shown for n in range(HARNESSES + 3)) == HARNESSES
    assert "3 other harnesses" in shown


def test_the_axis_is_that_of_the_data(lake: LakeBuilder) -> None:
    """With all rates above 80 %, no label says 0 or 50 %."""
    write(lake, *((f"arm{n}", "h", "m") for n in range(10)), least=11)
    (drawn,) = draw_lead(build(lake.root, "trial"))
    shown = [float(text[:-2]) for text in texts(drawn.svg) if text.endswith(" %")]
    assert len(shown) > 1
    assert min(shown) >= 50


def test_many_arms_name_the_leading_ones_and_the_frontier(lake: LakeBuilder) -> None:
    """Names that matter are there whatever the number of arms."""
    fill(lake, 60, 20, priced=True)
    report = build(lake.root, "trial")
    (drawn,) = draw_lead(report)
    pair = report.comparisons[0]
    shown = " ".join(texts(drawn.svg))
    for arm in (pair.baseline, pair.candidate):
        assert arm[:20] in shown


def test_without_costs_the_resolution_comes_first(lake: LakeBuilder) -> None:
    """The first screen has one figure in any case, and none twice."""
    lake.declare(["a", "b"], ["i1"])
    for arm in "ab":
        lake.cell(arm, "i1", cost_usd=None, unpriced_calls=2)
    html = page.render(build(lake.root, "trial"))
    assert html.count('<figure id="resolution-figure">') == 1
    assert '<figure id="frontier-figure">' not in html
