"""The report as Markdown."""

from reports.build import build
from reports.rendering.markdown import render
from tests.reports.lake_fixture import LakeBuilder


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
