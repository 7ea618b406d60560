"""Write lakes for tests: real Parquet files with the declared schemas and default values."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from duckdb import DuckDBPyConnection

from reports.columns import TABLES
from reports.relations import SQL

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)

CASES = SQL.parent / "cases"

ORDINARY: dict[str, dict[str, Any]] = yaml.safe_load(
    (CASES / "ordinary.yaml").read_text(encoding="utf-8")
)
"""Default values of a row by table; `arm` is a part of the path."""


_CELL = ("attempt_id", "instance_id")


def _ordinary(table: str, *without: str) -> dict[str, Any]:
    """Return the default row without the given columns."""
    return {name: v for name, v in ORDINARY[table].items() if name not in ("arm", *without)}


def attempt_row(**columns: Any) -> dict[str, Any]:
    """Return an attempt's row with default values for all other columns."""
    return {**_ordinary("attempts", *_CELL), **columns}


def evaluation_row(**columns: Any) -> dict[str, Any]:
    """Return a grading's row with default values for all other columns."""
    return {**_ordinary("evaluations", *_CELL), **columns}


def declared(connection: DuckDBPyConnection) -> list[str]:
    """Return the names of the declared arms."""
    rows = connection.execute("select arm from staging.experiments order by position").fetchall()
    return [arm for (arm,) in rows]


class LakeBuilder:
    """A writer of one experiment's rows to a lake folder, one file per row."""

    def __init__(self, root: Path, experiment: str = "trial") -> None:
        self.root = root
        self.experiment = experiment
        self._files = 0

    def write(self, table: str, arm: str, rows: Sequence[dict[str, Any]], unit: str = "") -> Path:
        """Write one file of a table and return its path."""
        folder = self.root / table / f"experiment={self.experiment}" / f"arm={arm}"
        folder.mkdir(parents=True, exist_ok=True)
        self._files += 1
        path = folder / f"{unit or f'{self._files:05d}'}.parquet"
        pq.write_table(pa.Table.from_pylist(list(rows), schema=TABLES[table].schema), path)
        return path

    def declare(self, arms: Sequence[str], instances: Sequence[str], **columns: Any) -> None:
        """Declare an experiment with these arms, in this order, and these instances."""
        for order, arm in enumerate(arms):
            row = {
                **_ordinary("experiments"),
                "arm_order": order,
                "instance_ids": list(instances),
                **columns,
            }
            self.write("experiments", arm, [row])

    def attempt(
        self, arm: str, instance: str, later_s: float = 0, unit: str = "", **columns: Any
    ) -> str:
        """Write an attempt that started `later_s` after noon, with its calls, and return its id."""
        attempt_id = columns.pop("attempt_id", f"{arm}-{instance}-{self._files}")
        row = attempt_row(attempt_id=attempt_id, instance_id=instance, **columns)
        if later_s:
            row["started_at"] = NOON + timedelta(seconds=later_s)
        self.write("attempts", arm, [row], unit)
        self.calls(arm, row)
        return attempt_id

    def predict(
        self, arm: str, instance: str, attempt_id: str, unit: str = "", **columns: Any
    ) -> None:
        """Write the patch of an attempt."""
        cell = {"attempt_id": attempt_id, "instance_id": instance, "model_name_or_path": arm}
        row = {**_ordinary("predictions"), **cell, **columns}
        self.write("predictions", arm, [row], unit)

    def evaluate(
        self,
        arm: str,
        instance: str,
        attempt_id: str,
        outcome: str,
        later_s: float = 0,
        unit: str = "",
        **columns: Any,
    ) -> None:
        """Write a grading of an attempt's patch."""
        verdict = {"outcome": outcome, "resolved": outcome == "resolved"}
        row = evaluation_row(
            **{
                "attempt_id": attempt_id,
                "instance_id": instance,
                "started_at": NOON + timedelta(seconds=later_s),
                **verdict,
                **columns,
            }
        )
        self.write("evaluations", arm, [row], unit)

    def steps(self, arm: str, instance: str, attempt_id: str, *steps: dict[str, Any]) -> None:
        """Write the steps of an attempt to the file that is named after it."""
        cell = {"attempt_id": attempt_id, "instance_id": instance}
        rows = [
            {**_ordinary("steps"), **cell, "seq": seq, **step} for seq, step in enumerate(steps)
        ]
        self.write("steps", arm, rows, unit=attempt_id)

    def cell(self, arm: str, instance: str, outcome: str = "resolved", **columns: Any) -> str:
        """Write attempt, calls, patch and grading of a cell, and return the attempt's id."""
        repeat = columns.get("repeat", 0)
        attempt_id = self.attempt(arm, instance, **columns)
        self.predict(arm, instance, attempt_id, repeat=repeat)
        self.evaluate(arm, instance, attempt_id, outcome, repeat=repeat)
        return attempt_id

    def fill(self, resolved: Mapping[str, int], instances: Sequence[str], **columns: Any) -> None:
        """Write every cell of some arms. Each arm resolves its number of the first instances."""
        for arm, number in resolved.items():
            for place, instance in enumerate(instances):
                outcome = "resolved" if place < number else "unresolved"
                self.cell(arm, instance, outcome, **columns)

    def call(self, **columns: Any) -> dict[str, Any]:
        """Return a call's row with default values for all other columns."""
        return {**_ordinary("llm_calls"), **columns}

    def calls(self, arm: str, attempt: dict[str, Any]) -> None:
        """Write calls that add up to the attempt. The first ones are unpriced."""
        calls, unpriced = attempt["model_calls"], attempt["unpriced_calls"]
        priced = calls - unpriced
        rows = [
            {
                **_ordinary("llm_calls"),
                "attempt_id": attempt["attempt_id"],
                "instance_id": attempt["instance_id"],
                "repeat": attempt["repeat"],
                "seq": seq,
                "cost_usd": None if seq < unpriced else (attempt["cost_usd"] or 0) / priced,
            }
            for seq in range(calls)
        ]
        if rows:
            self.write("llm_calls", arm, rows)
