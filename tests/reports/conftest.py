"""Lakes for the tests of reports."""

from pathlib import Path

import pytest

from tests.reports.lake_fixture import LakeBuilder


@pytest.fixture
def lake(tmp_path: Path) -> LakeBuilder:
    """Return an empty lake for the experiment `trial`."""
    root = tmp_path / "lake"
    root.mkdir()
    return LakeBuilder(root)


@pytest.fixture
def two_arms(lake: LakeBuilder) -> LakeBuilder:
    """Return a lake with two arms and four instances, one in each field of the paired table."""
    lake.declare(
        ["quick", "careful"],
        ["i1", "i2", "i3", "i4"],
        primary_baseline="quick",
        primary_candidate="careful",
    )
    resolved = {"quick": {"i1", "i2"}, "careful": {"i1", "i3"}}
    for arm, cost in (("quick", 0.5), ("careful", 1.5)):
        for instance in ("i1", "i2", "i3", "i4"):
            outcome = "resolved" if instance in resolved[arm] else "unresolved"
            lake.cell(arm, instance, outcome, cost_usd=cost)
    return lake
