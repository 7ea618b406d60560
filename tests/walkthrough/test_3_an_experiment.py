"""An experiment: arms over instances, orchestrated by Prefect, kept in a lake, reported."""

from pathlib import Path

import duckdb
import pytest

from flows.experiments import declaration
from flows.storage import report_files
from flows.storage.lake import Lake

pytestmark = pytest.mark.slow

DECLARED = """
name: walkthrough
environment: host
select: {sample: 1}
model: {provider: simulated, skill: 1}
arms:
  - {name: mini, agent: mini}
  - {name: "null", agent: "null"}
primary: {baseline: "null", candidate: mini}
"""


async def test_a_run_leaves_parquet_behind_and_a_second_run_adds_nothing(
    prefect: None, tmp_path: Path
) -> None:
    """What is finished is never done again; any DuckDB can read what was done."""
    from flows.benchmark import benchmark

    (tmp_path / "walkthrough.yaml").write_text(DECLARED)
    declared = declaration.load(tmp_path / "walkthrough.yaml")
    lake = str(tmp_path / "lake")
    page = await benchmark(declared, lake)
    files = set(tmp_path.rglob("*.parquet"))
    await benchmark(declared, lake)
    assert set(tmp_path.rglob("*.parquet")) == files

    # Hive-partitioned by experiment and arm; the columns are listed in reports/TABLES.md.
    paid = duckdb.sql(
        f"""
        select arm, sum(model_calls) > 0 as called, sum(cost_usd) > 0 as paid
        from read_parquet('{lake}/attempts/**/*.parquet', hive_partitioning = true)
        group by arm order by arm
        """
    ).fetchall()
    assert paid == [("mini", True, True), ("null", False, False)]

    # The report keeps every planned cell in the denominator and respects the pairing.
    built = report_files.read(Lake.existing(lake), "walkthrough")
    table = built.comparisons[0].table
    assert (table.only_candidate, table.pairs) == (1, 1)
    assert Path(page).read_text().startswith("<!doctype html>")
