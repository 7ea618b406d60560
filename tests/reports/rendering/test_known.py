"""A report of verdicts alone leaves out all tables that would say nothing."""

from collections.abc import Sequence

import pytest

from reports.build import build
from reports.rendering import markdown, page
from tests.reports.lake_fixture import LakeBuilder
from tests.reports.many_arms import instance_ids, verdicts
from tests.reports.shown import answers

SAYS_NOTHING = (
    "tests not recorded",
    "not audited",
    "suspect verdicts",
    "complete pairs, ",
    "Costs by repository",
    "Tokens",
    "Every way to fail",
    "patch failed",
    "degenerate resamples",
)


@pytest.fixture
def imported(lake: LakeBuilder) -> LakeBuilder:
    """Write three arms of which only verdicts are known."""
    lake.declare([*"abc"], instance_ids(12), environment="imported")
    for place, arm in enumerate("abc"):
        resolved = [number < 4 * place for number in range(12)]
        verdicts(lake, arm, resolved, each={"outcome": ["unknown"] * 12})
    return lake


def asked(lake: LakeBuilder) -> Sequence[str]:
    """Return the names of the questions that the report answers."""
    return list(answers(build(lake.root, "trial")))


def test_verdicts_alone_make_a_short_report(imported: LakeBuilder) -> None:
    """Neither page nor Markdown has a table or an answer about what nobody knows."""
    report = build(imported.root, "trial")
    html, text = page.render(report), markdown.render(report)
    body = html.partition("</style>")[2].partition("<footer>")[0]
    for words in SAYS_NOTHING:
        assert words not in body.partition("Every instance")[0], words
        assert words not in text, words
    assert "| arm | resolved | unresolved |" in text
    assert not {"failures", "effort", "budget"} & {*asked(imported)}
