"""Import mini-swe-agent trajectories: patches, calls with tokens and costs, commands."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from agent.models import trajectory
from agent.models.trajectory import Trajectory
from eval import instances
from eval.digests import canonical_digest
from eval.types import Instance
from flows.display.errors import UsageError
from flows.experiments import records
from flows.experiments.records import NO_PROGRAM
from flows.formats import imported_arms, lake_rows
from flows.formats.comparisons import Comparisons
from flows.formats.imported_arms import ImportedArm
from flows.formats.predictions import PredictionSource, instances_of
from flows.storage.files import make_readable
from flows.storage.lake import Lake, Row

_STATUS = {
    "Submitted": "submitted",
    "LimitsExceeded": "out_of_budget",
    "TimeExceeded": "out_of_time",
}
"""mini-swe-agent's exit statuses. All others count as gave up."""


@dataclass(frozen=True)
class ImportedRun:
    """One imported trajectory."""

    instance_id: str
    model_calls: int
    unpriced_calls: int
    """Number of calls without a cost: their price is unknown, not zero."""
    cost_usd: float | None
    """Total of the known costs; None if no call has one."""


def import_mini(
    folder: Path,
    source: PredictionSource,
    arm: str,
    lake_path: str | None,
    comparisons: Comparisons | None = None,
) -> list[ImportedRun]:
    """Import mini-swe-agent trajectories: predictions, every call and every command.

    The arm is placed beside those already imported under the name.

    Raises:
        InvalidSpec, DatasetError, UsageError: a file, an id or a comparison cannot be used; nothing
            was written.
    """
    paths = sorted(folder.rglob("*.traj.json"))
    if not paths:
        raise UsageError(f"there is no *.traj.json in {folder}")
    runs = [trajectory.load(path) for path in paths]
    chosen = instances_of([run.instance_id for run in runs], source)
    imported_arms.check_name(source.experiment)
    imported_arms.check_name(arm, "an arm")
    lake = Lake.open(lake_path)
    model = ", ".join(sorted({run.model for run in runs}))
    attempts = [_attempt_id(source, arm, run) for run in runs]
    with imported_arms.alone(lake, source.experiment):
        imported_arms.declare(
            lake,
            source.experiment,
            [
                ImportedArm(
                    arm,
                    agent="mini",
                    model=model,
                    environment="imported",
                    dataset=source.dataset,
                    dataset_digest=instances.dataset_digest(chosen.values()),
                    instance_ids=tuple(chosen),
                    label=arm,
                    units=frozenset(attempts),
                )
            ],
            comparisons=comparisons,
        )
        return [
            _file_trajectory(lake, source, arm, chosen[run.instance_id], run, attempt_id)
            for run, attempt_id in zip(runs, attempts, strict=True)
        ]


def _attempt_id(source: PredictionSource, arm: str, run: Trajectory) -> str:
    messages = [call.message for call in run.calls]
    content = [source.experiment, arm, run.instance_id, messages, run.submission]
    return canonical_digest(content)[:32]


def _file_trajectory(
    lake: Lake,
    source: PredictionSource,
    arm: str,
    instance: Instance,
    run: Trajectory,
    attempt_id: str,
) -> ImportedRun:
    where = (source.experiment, arm)
    cell = {"attempt_id": attempt_id, "instance_id": run.instance_id, "repeat": 0}
    patch = run.submission
    lake.write("llm_calls", *where, attempt_id, _calls(cell, run))
    lake.write("steps", *where, attempt_id, _steps(cell, run))
    lake.write("predictions", *where, attempt_id, [records.patch_row(cell, arm, patch)])
    row = {
        **lake_rows.attempt_columns(
            cell, instance.repo, agent="mini", model=run.model, provider="litellm"
        ),
        "outcome": _STATUS.get(run.exit_status, "gave_up"),
        "detail": run.exit_status,
        **records.NO_REPORT,
        **NO_PROGRAM,
        "started_at": run.calls[0].created_at if run.calls else None,
        **records.usage_totals([call.usage for call in run.calls]),
        **({} if run.has_all_tokens else records.UNKNOWN_TOKENS),
        "cost_usd": run.known_cost_usd,
        "billed_usd": None,
        "versions": json.dumps({"mini-swe-agent": run.mini_version}),
    }
    lake.write("attempts", *where, attempt_id, [row])
    return ImportedRun(run.instance_id, len(run.calls), run.unpriced_calls, run.known_cost_usd)


def _calls(cell: Row, run: Trajectory) -> Iterable[Row]:
    for seq, call in zip(_call_steps(run), run.calls, strict=True):
        yield {
            **cell,
            "scope": "",
            "seq": seq,
            "role": "",
            "model": run.model,
            **(records.tokens(call.usage) if call.has_tokens else records.UNKNOWN_TOKENS),
            "cost_usd": call.usage.cost_usd,
            "cost_source": call.cost_source,
            "finish_reason": call.finish_reason,
            "latency_s": None,
            "retries": 0,
            "started_at": call.created_at,
        }


def _steps(cell: Row, run: Trajectory) -> Iterable[Row]:
    """Return each call followed by its commands, numbered consecutively."""
    unknown = {
        "scope": "",
        "exit_code": None,
        "output_bytes": None,
        "timed_out": False,
        "started_at": None,
        "duration_s": None,
    }
    for seq, call in zip(_call_steps(run), run.calls, strict=True):
        message = make_readable(json.dumps(call.message, ensure_ascii=False))
        yield {**cell, **unknown, "seq": seq, "kind": "model", **_request({}), "result": message}
    seqs = _command_steps(run)
    for seq, command in zip(seqs, run.commands, strict=True):
        output = command.output or ""
        yield {
            **cell,
            **unknown,
            "seq": seq,
            "kind": "command",
            **_request({"command": command.command}),
            "result": records.output_json(output),
            "exit_code": command.returncode,
            "output_bytes": len(output.encode("utf-8", "replace")),
        }


def _call_steps(run: Trajectory) -> list[int]:
    """Return the step number of each call: the number of earlier calls and their commands."""
    return [
        index + sum(command.call_seq < index for command in run.commands)
        for index in range(len(run.calls))
    ]


def _command_steps(run: Trajectory) -> list[int]:
    """Return the step number of each command: earlier commands, and calls up to its own."""
    return [index + command.call_seq + 1 for index, command in enumerate(run.commands)]


def _request(request: Row) -> Row:
    return {
        "request": json.dumps(request, ensure_ascii=False),
        "request_digest": canonical_digest(request),
    }
