"""The report as Markdown."""

import pytest

from reports.build import build
from reports.rendering.markdown import render
from tests.reports.lake_fixture import LakeBuilder

pytestmark = pytest.mark.sampled(2)


def test_the_parts_come_in_the_order_of_importance(two_arms: LakeBuilder) -> None:
    """The sections have a fixed order, from the arms to the source."""
    text = render(build(two_arms.root, "trial"))
    heads = [line for line in text.splitlines() if line.startswith("#")]
    assert heads == [
        "# trial",
        "## Arms",
        "## What does it cost?",
        "## Which arm is worth its cost?",
        "## What does a budget buy?",
        "## Where do they differ?",
        "## Which instances are resolved, and by how many arms?",
        "## Why do attempts fail?",
        "## How do the arms work, and where does the money go?",
        "## How much was wasted?",
        "## How wrong may the grader be?",
        "## careful against quick: sensitivity and method",
        "## Every pair of arms",
        "## Source",
    ]
    assert text.endswith("swebench 5.0.2\n")


def test_the_golden_rows(two_arms: LakeBuilder) -> None:
    """Rows have percentages with one decimal, and dollars and p-values with three digits."""
    text = render(build(two_arms.root, "trial"))
    for line in (
        "**No difference seen between careful and quick: 2 of 4 against 2 of 4 (p = 1.00); 4 "
        "instances can show only differences above 74.2 points; careful costs "
        "3.00\N{MULTIPLICATION SIGN} as much ($1.50 against $0.500 per instance).**",
        "| quick | test/model | 4 | 2 | 50.0 % | 15.0 % to 85.0 % | $2.00 | $0.500 | $1.00 | 2.0 "
        "| 10.0 s |",
        "| quick resolved | 1 | 1 |",
        "| not resolved | 1 | 1 |",
        "| quick | careful | primary | 1 | 1 | 1 | 1 | 0.0 | "
        "\N{MINUS SIGN}74.2 to +74.2 | 1.00 | 1.00 | 1.00 | 1.00 | "
        "3.00\N{MULTIPLICATION SIGN} | 4 |",
        "| quick | 400 | 160 | 40 | 80 | 20 |",
        "| careful | i3 |",
        "| quick | i2 |",
        "| difference, points | 0.0 | \N{MINUS SIGN}74.2 to +74.2 | 4 pairs | paired test |",
        "| p | 1.00 | \N{EN DASH} | 2 discordant pairs | paired test |",
        "| cost, difference per cell | +$1.00 | +$1.00 to +$1.00 | 4 pairs | bootstrap-t by "
        "instance |",
    ):
        assert line in text


def test_failed_audits_precede_the_answer(two_arms: LakeBuilder) -> None:
    """A failed audit precedes the answer and states its name and the number of rows."""
    two_arms.attempt("quick", "elsewhere", attempt_id="stray")
    text = render(build(two_arms.root, "trial"))
    assert "**Audit `undeclared_cell` found 1 row:**" in text
    assert text.index("undeclared_cell") < text.index("No difference seen between careful")


def test_nothing_resolved_and_nothing_known_are_words(lake: LakeBuilder) -> None:
    """Undefined and unknown values are words, never zero."""
    lake.declare(["a", "b"], ["i1"])
    lake.cell("a", "i1", "unresolved")
    lake.cell("b", "i1", cost_usd=None, unpriced_calls=2)
    text = render(build(lake.root, "trial"))
    assert "| $0.500 | $0.500 | none resolved |" in text
    assert "| unknown | unknown | unknown |" in text


def test_data_cannot_write_markdown(lake: LakeBuilder) -> None:
    """Pipes, backticks and markup in names stay text and do not break tables."""
    weird = "a`b``|<script>*x*\n_y_"
    lake.declare(["quick", "careful"], [weird], dataset="<b>|[x](y)", model="m|x*")
    lake.cell("careful", weird)
    lake.cell("quick", weird, "unresolved")
    text = render(build(lake.root, "trial"))
    assert r"| careful | a\`b\`\`\|\<script\>\*x\* \_y\_ |" in text
    assert r"\<b\>\|\[x\](y)" in text
    assert r"| quick | m\|x\* | 1 |" in text


def test_long_lists_of_differences_stop(lake: LakeBuilder) -> None:
    """A list of differing instances has twenty names and the number of the others."""
    names = [f"i{n:02d}" for n in range(23)]
    lake.declare(["quick", "careful"], names)
    for name in names:
        lake.cell("careful", name)
    text = render(build(lake.root, "trial"))
    assert "i19 and 3 more cells |" in text
    assert "i20" not in text


def test_an_experiment_that_has_not_begun_says_so(lake: LakeBuilder) -> None:
    """An experiment that has not begun says so, and a single arm has no comparison."""
    lake.declare(["a"], ["i1"])
    assert "**Nothing has run yet: 1 cell planned.**" in render(build(lake.root, "trial"))
    lake.cell("a", "i1")
    text = render(build(lake.root, "trial"))
    assert "a resolves 1 of 1 (100.0 %, 95 % interval 20.7 % to 100.0 %)" in text
    assert "Every pair" not in text
