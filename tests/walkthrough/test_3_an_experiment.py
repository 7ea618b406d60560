"""An experiment: arms over instances, orchestrated by Prefect, stored in a lake, and reported."""

from pathlib import Path

import duckdb
import pytest
import yaml

from eval.instances import load
from flows.display.errors import UsageError
from flows.experiments import declaration
from flows.experiments.cells import Place, plan
from flows.storage import report_files
from flows.storage.lake import Lake

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


def test_a_mistake_in_the_file_is_one_line(tmp_path: Path) -> None:
    """An unknown key causes an error that names it, before anything is paid for."""
    (tmp_path / "wrong.yaml").write_text(DECLARED + "repeat: 2\n")
    with pytest.raises(UsageError, match="repeat") as error:
        declaration.load(tmp_path / "wrong.yaml")
    assert "\n" not in str(error.value)


def test_a_plan_has_a_cell_for_each_arm_instance_and_repeat() -> None:
    """Cells are planned, cached and reported. Each has its own seed."""
    declared = declaration.parse({**yaml.safe_load(DECLARED), "repeats": 3}, "walkthrough")
    cells = plan(declared, load("bundled")[:2], Place("host"))
    assert len({cell.label for cell in cells}) == 2 * 2 * 3
    assert len({cell.seed for cell in cells}) == 2 * 2 * 3


@pytest.mark.slow
async def test_a_run_leaves_parquet_behind_and_a_second_run_adds_nothing(
    prefect: None, tmp_path: Path
) -> None:
    """Finished work is never repeated, and any DuckDB can read its results."""
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


@pytest.mark.slow
async def test_a_larger_experiment_runs_only_what_is_missing(prefect: None, tmp_path: Path) -> None:
    """Adding an arm or an instance under the same name keeps finished results."""
    from flows.benchmark import benchmark

    small = yaml.safe_load(DECLARED)
    lake = Lake.existing(tmp_path / "lake")
    await benchmark(declaration.parse(small, "walkthrough"), str(lake.root))
    before = lake.units("attempts", "*")
    larger = {**small, "arms": [*small["arms"], {"name": "gold", "agent": "gold"}]}
    await benchmark(declaration.parse(larger, "walkthrough"), str(lake.root))
    assert [unit for unit in lake.units("attempts", "*") if unit not in before] == lake.units(
        "attempts", "*", arm="gold"
    )
