"""Every pair of arms in words, as a list and as a figure."""

import pytest

from reports.build import build
from reports.questions.pairs import section as module
from reports.rendering.markdown import render as to_markdown
from tests.reports.lake_fixture import LakeBuilder

INSTANCES = [f"i{n}" for n in range(12)]


def test_a_long_list_has_the_declared_and_the_clearest_pairs(
    lake: LakeBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If there are too many pairs, the list says how many it leaves out."""
    monkeypatch.setattr(module, "LISTED", 2)
    resolved = {"a": 0, "b": 1, "c": 11, "d": 12}
    lake.declare([*resolved], INSTANCES, primary_baseline="a", primary_candidate="b")
    lake.fill(resolved, INSTANCES)
    section = build(lake.root, "trial").section("pairs")
    assert section is not None
    (table,) = section.tables
    assert [row[:2] for row in table.rows] == [("a", "b"), ("a", "d")]
    assert "2 of 6 pairs" in table.caption
    assert "2 of 6 pairs" in to_markdown(build(lake.root, "trial"))
