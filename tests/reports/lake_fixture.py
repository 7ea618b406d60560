"""A lake written by hand: real Parquet files with the declared schemas, few words a row."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from reports.columns import TABLES

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)

_ATTEMPT = {
    "repeat": 0,
    "repo": "toy/toy",
    "agent": "mini",
    "model": "test/model",
    "provider": "scripted",
    "environment": "docker",
    "outcome": "submitted",
    "detail": "Submitted",
    "workflow_status": None,
    "agent_verdict": None,
    "reproduced": None,
    "prediction_emitted": None,
    "report": None,
    "started_at": NOON,
    "duration_s": 10.0,
    "model_calls": 2,
    "unpriced_calls": 0,
    "input_tokens": 100,
    "cache_read_tokens": 40,
    "cache_write_tokens": 10,
    "output_tokens": 20,
    "reasoning_tokens": 5,
    "cost_usd": 0.5,
    "billed_usd": 0.5,
    "seed": 0,
    "image": "toy:1",
    "image_digest": "sha256:toy",
    "versions": '{"mini-swe-agent": "2.4.6"}',
}

_CALL = {
    "repeat": 0,
    "scope": "",
    "role": "",
    "model": "test/model",
    "input_tokens": 50,
    "cache_read_tokens": 20,
    "cache_write_tokens": 5,
    "output_tokens": 10,
    "reasoning_tokens": 2,
    "cost_source": "litellm",
    "finish_reason": "stop",
    "latency_s": 1.0,
    "retries": 0,
    "started_at": NOON,
}

_EVALUATION = {
    "repeat": 0,
    "patch_sha256": "p",
    "environment": "docker",
    "reason": "",
    "audited_verdict": None,
    "audit_reasons": [],
    "gradings": 1,
    "fail_to_pass_success": [],
    "fail_to_pass_failure": [],
    "pass_to_pass_success": [],
    "pass_to_pass_failure": [],
    "log_tail": "",
    "image_digest": "sha256:toy",
    "harness_version": "5.0.2",
    "timeout_s": 60.0,
    "started_at": NOON,
    "duration_s": 3.0,
}

_EXPERIMENT = {
    "declared_at": NOON,
    "declaration_digest": "d1",
    "declaration": "{}",
    "agent": "mini",
    "model": "test/model",
    "simulated": False,
    "dataset": "toy.jsonl",
    "dataset_digest": "abc",
    "repeats": 1,
    "environment": "docker",
    "primary_baseline": None,
    "primary_candidate": None,
    "primary_margin": None,
    "family": [],
}


def attempt_row(**columns: Any) -> dict[str, Any]:
    """An attempt's row; what is not given is ordinary."""
    return {**_ATTEMPT, **columns}


def evaluation_row(**columns: Any) -> dict[str, Any]:
    """A grading's row; what is not given is ordinary."""
    return {**_EVALUATION, **columns}


class LakeBuilder:
    """Writes rows of one experiment into a lake folder, one file per row."""

    def __init__(self, root: Path, experiment: str = "trial") -> None:
        self.root = root
        self.experiment = experiment
        self._files = 0

    def write(self, table: str, arm: str, rows: Sequence[dict[str, Any]]) -> Path:
        """One file of one table."""
        folder = self.root / table / f"experiment={self.experiment}" / f"arm={arm}"
        folder.mkdir(parents=True, exist_ok=True)
        self._files += 1
        path = folder / f"{self._files:05d}.parquet"
        pq.write_table(pa.Table.from_pylist(list(rows), schema=TABLES[table].schema), path)
        return path

    def declare(self, arms: Sequence[str], instances: Sequence[str], **columns: Any) -> None:
        """An experiment with these arms, in this order, over these instances."""
        for order, arm in enumerate(arms):
            row = {**_EXPERIMENT, "arm_order": order, "instance_ids": list(instances), **columns}
            self.write("experiments", arm, [row])

    def attempt(self, arm: str, instance: str, later_s: float = 0, **columns: Any) -> str:
        """An attempt that started `later_s` after noon, with its calls; returns its id."""
        attempt_id = columns.pop("attempt_id", f"{arm}-{instance}-{self._files}")
        row = attempt_row(attempt_id=attempt_id, instance_id=instance, **columns)
        if later_s:
            row["started_at"] = NOON + timedelta(seconds=later_s)
        self.write("attempts", arm, [row])
        self.calls(arm, row)
        return attempt_id

    def predict(self, arm: str, instance: str, attempt_id: str, **columns: Any) -> None:
        """The patch of an attempt."""
        row = {
            "attempt_id": attempt_id,
            "instance_id": instance,
            "repeat": 0,
            "model_name_or_path": arm,
            "model_patch": "diff --git a/x b/x\n",
            "patch_sha256": "p",
            **columns,
        }
        self.write("predictions", arm, [row])

    def evaluate(
        self,
        arm: str,
        instance: str,
        attempt_id: str,
        outcome: str,
        later_s: float = 0,
        **columns: Any,
    ) -> None:
        """A grading of an attempt's patch."""
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
        self.write("evaluations", arm, [row])

    def cell(self, arm: str, instance: str, outcome: str = "resolved", **columns: Any) -> str:
        """A whole cell: attempt, calls, patch and grading; returns the attempt's id."""
        repeat = columns.get("repeat", 0)
        attempt_id = self.attempt(arm, instance, **columns)
        self.predict(arm, instance, attempt_id, repeat=repeat)
        self.evaluate(arm, instance, attempt_id, outcome, repeat=repeat)
        return attempt_id

    def calls(self, arm: str, attempt: dict[str, Any]) -> None:
        """Calls that agree with the attempt: the unpriced ones first, the cost on the others."""
        calls, unpriced = attempt["model_calls"], attempt["unpriced_calls"]
        priced = calls - unpriced
        rows = [
            {
                **_CALL,
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
