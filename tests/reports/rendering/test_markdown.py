"""The report as Markdown."""

from reports.build import build
from reports.rendering.markdown import render
from tests.reports.lake_fixture import LakeBuilder


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


def test_failed_audits_precede_the_answer(two_arms: LakeBuilder) -> None:
    """A failed audit precedes the answer and states its name and the number of rows."""
    two_arms.attempt("quick", "elsewhere", attempt_id="stray")
    text = render(build(two_arms.root, "trial"))
    assert "**Audit `undeclared_cell` found 1 row:**" in text
    assert text.index("undeclared_cell") < text.index("No difference seen between careful")


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
