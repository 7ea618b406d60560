"""A report of very many cells holds those that it shows, and its numbers are those of all."""

from dataclasses import replace

import pytest

from flows.report import most_telling
from reports.analysis import paired
from reports.build import build
from reports.types import ReportCell
from tests.reports.lake_fixture import LakeBuilder

OUTCOMES = ("resolved", "unresolved", "patch_failed")


@pytest.fixture
def three_arms(lake: LakeBuilder) -> LakeBuilder:
    """Return a lake with two compared arms and a third one that has odd cells at its end."""
    names = [f"i{n}" for n in range(8)]
    lake.declare(["a", "b", "c"], names, primary_baseline="a", primary_candidate="b")
    for number, name in enumerate(names):
        for place, arm in enumerate(("a", "b", "c")):
            if (arm, name) == ("c", "i6"):
                lake.attempt(arm, name, outcome="infrastructure")
            elif (arm, name) == ("c", "i7"):
                attempt = lake.attempt(arm, name)
                lake.predict(arm, name, attempt)
                lake.evaluate(arm, name, attempt, "resolved", audited_verdict="suspect")
            else:
                outcome = OUTCOMES[(number + place) % 3]
                lake.cell(arm, name, outcome, cost_usd=0.25 * (1 + number))
    return lake


def test_the_cells_are_those_that_are_shown(
    three_arms: LakeBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are the first ones, suspects, examples, those at which the leading pair differs, and
    what needs attention."""
    whole = build(three_arms.root, "trial")
    monkeypatch.setattr(paired, "FIRST_CELLS", 4)
    monkeypatch.setattr(paired, "TELLING_CELLS", 2)
    monkeypatch.setattr(paired, "SHOWN", 2)
    report = build(three_arms.root, "trial")
    examples = {one.attempt_id for one in whole.failures}
    telling = most_telling(whole.cells)[:2]
    by_place = {(cell.arm, cell.instance_id): cell for cell in whole.cells}
    pairs = [(by_place["a", f"i{n}"], by_place["b", f"i{n}"]) for n in range(8)]
    differing = [
        cell
        for winner, loser in ((0, 1), (1, 0))
        for pair in [p for p in pairs if p[winner].failure is None and p[loser].failure][:2]
        for cell in pair
    ]

    def is_shown(place: int, cell: ReportCell) -> bool:
        is_odd = cell.is_suspect or cell in telling or cell.attempt_id in examples
        return place < 4 or cell in differing or is_odd

    expected = tuple(cell for place, cell in enumerate(whole.cells) if is_shown(place, cell))
    assert len(whole.cells) == 24
    assert len(expected) < 24
    assert report.cells == expected
    nothing = {"cells": (), "sections": ()}
    assert replace(report, **nothing) == replace(whole, **nothing)
