"""Import and report of a table with a million rows, as published results."""

import sys
from pathlib import Path

import duckdb

from tests.bench.timing import Bound, measured

DURABENCH = str(Path(sys.executable).with_name("durabench"))
NAME = "million"
ARMS, INSTANCES = 20, 50_000
IMPORT_SECONDS, REPORT_SECONDS, REPORT_GIBIBYTES = 20.0, 20.0, 1.05


def run(folder: Path, *, pairs: int) -> list[Bound]:
    """Measure both commands once. `pairs` is ignored, since each takes long."""
    table, lake = folder / "results.csv", str(folder / "lake")
    _write(table)
    took = measured(
        [DURABENCH, "import", "table", str(table), "--name", NAME, "--lake", lake], folder
    )
    report = measured([DURABENCH, "report", NAME, "--lake", lake], folder)
    rows = f"{ARMS * INSTANCES:,} rows"
    arms = f"{rows} of {ARMS} arms"
    return [
        Bound("import of a table", took.wall_s, IMPORT_SECONDS, "s", rows),
        Bound("its report, processor time", report.cpu_s, REPORT_SECONDS, "s", arms),
        Bound("memory of its report", report.gibibytes, REPORT_GIBIBYTES, "GiB", arms),
    ]


def _write(table: Path) -> None:
    """Write a row for each arm and instance, with all the columns of usual tables."""
    duckdb.execute(
        f"""
        copy (
            select
                'arm-' || arm.range as arm,
                'made__up-' || instance.range as instance_id,
                chance % 100 < 20 + 2 * arm.range as resolved,
                round((1 + chance % 1009) / 500.0, 4) as cost,
                5 + chance % 61 as api_calls
            from range({ARMS}) arm, range({INSTANCES}) instance,
                lateral (select hash(arm.range, instance.range) as chance)
        ) to '{table}' (format csv, header)
        """
    )
