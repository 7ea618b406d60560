"""Comparing experiments of the lake with foreign results."""

from pathlib import Path

from flows.formats import comparison
from reports.types import Report
from tests.reports.lake_fixture import NOON, LakeBuilder

IDS = [f"acme__lib-{number}" for number in range(12)]


def compare(root: Path, hours: int) -> Report:
    """Compare a table with an experiment whose primary comparison was declared at an hour."""
    builder = LakeBuilder(root / "lake", "night")
    builder.fill({"plain": 5, "careful": 9}, IDS)
    builder.declare(
        ["plain", "careful"],
        IDS,
        declared_at=NOON.replace(hour=NOON.hour + hours),
        primary_baseline="careful",
        primary_candidate="plain",
        primary_margin=0.1,
    )
    table = root / "other.csv"
    rows = [f"{name},{place < 7}\n" for place, name in enumerate(IDS)]
    table.write_text("instance_id,resolved\n" + "".join(rows))
    return comparison.compare([str(table), "night"], lake_path=str(root / "lake"))


def test_a_comparison_that_was_declared_after_the_run_is_not_declared(tmp_path: Path) -> None:
    """It is as exploratory as in the report of the experiment alone."""
    report = compare(tmp_path, 2)
    assert {pair.role for pair in report.comparisons} == {"exploratory"}
