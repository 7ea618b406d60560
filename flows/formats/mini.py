"""Trajectories of mini-swe-agent: patches, calls with tokens and costs, commands.

The model side of attempts is written, which `provider: recorded` replays.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from atif import Metrics, ObservationResult, Step, ToolCall

from agent.models import recorded, trajectory
from agent.models.protocol import ModelReply
from agent.models.recorded import RecordedEnd, ScopedReply
from agent.models.trajectory import RecordedCall, RecordedCommand, Trajectory
from agent.session.steps import CutOff, from_record
from eval import instances, predictions
from eval.digests import canonical_digest
from eval.types import Instance
from flows.display.errors import UsageError
from flows.display.terminal import warn
from flows.experiments import records
from flows.formats import atif_steps, attempts, lake_rows, step_rows
from flows.formats.attempts import TOKENS, ExchangedAttempt, ReadFiles
from flows.formats.folders import find_files, refuse_link
from flows.formats.harbor_files import INFRASTRUCTURE
from flows.formats.predictions import PredictionSource, instances_of
from flows.storage.files import make_readable
from flows.storage.journals import existing_journal, journal_url
from flows.storage.lake import Lake
from flows.storage.whole_files import write_whole
from reports.format import plural

_STATUS = {
    "Submitted": "submitted",
    "LimitsExceeded": "out_of_budget",
    "TimeExceeded": "out_of_time",
    "": "interrupted",
    **dict.fromkeys(INFRASTRUCTURE.split(), "infrastructure"),
}
"""Outcomes by mini-swe-agent's exit status, which can be the name of an exception of LiteLLM. All
others count as gave up."""


def read(folder: Path, source: PredictionSource | None = None) -> ReadFiles:
    """Read the trajectories of a folder, on instances of a dataset.

    Without a dataset, the folder takes its place, and only ids of SWE-bench name a repository. An
    instance of `preds.json` without a trajectory was never run: its environment did not start.

    Raises:
        InvalidSpec, DatasetError, PredictionsError, UsageError: a file or an id cannot be used.
    """
    paths = find_files(folder, ".traj.json")
    if not paths:
        raise UsageError(f"there is no *.traj.json in {folder}")
    runs = {path: trajectory.load(path) for path in paths}
    ids = [run.instance_id for run in runs.values()]
    chosen = instances_of(ids, source) if source else {}
    return ReadFiles(
        [_read_attempt(path, run, chosen) for path, run in runs.items()],
        source.dataset if source else folder.resolve().name,
        planned=_find_unstarted(folder, set(ids)),
        dataset_digest=instances.dataset_digest(chosen.values()) if source else None,
    )


def _find_unstarted(folder: Path, started: set[str]) -> list[str]:
    """Return the instances that a run has ended without a trajectory."""
    path = refuse_link(folder / "preds.json", folder)
    listed = predictions.read(path) if path.is_file() else []
    missing = [p.instance_id for p in listed if p.instance_id not in started]
    if missing:
        warn(f"{path}: counted as never run: {plural(len(missing), 'instance')} without a file.")
    return missing


def _read_attempt(path: Path, run: Trajectory, chosen: Mapping[str, Instance]) -> ExchangedAttempt:
    line = []
    for number, call in enumerate(run.calls):
        step = _read_answer(number + 1, call)
        for command in run.commands:
            if command.call_seq == number:
                _add_result(step, command)
        line.append(step)
    lines, instance_id = {"": line}, run.instance_id
    try:
        usage = attempts.sum_usage(step_rows.calls(lines, run.model), {}, run.instance_cost_usd)
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from None
    facts = attempts.describe(
        str(path),
        usage | {"unpriced_calls": run.unpriced_calls},
        agent="mini",
        model=run.model,
        instance_id=instance_id,
        repo=chosen[instance_id].repo if chosen else lake_rows.repository(instance_id),
        outcome=_STATUS.get(run.exit_status, "gave_up"),
        detail=run.exit_status,
        started_at=run.calls[0].created_at if run.calls else None,
        patch=run.submission,
        versions={"mini-swe-agent": run.mini_version},
    )
    digest = canonical_digest([[call.message for call in run.calls], run.submission])
    return ExchangedAttempt(facts, str(path), digest, lines)


def _read_answer(number: int, call: RecordedCall) -> Step:
    message = json.loads(make_readable(json.dumps(call.message, ensure_ascii=False)))
    tokens = records.tokens(call.usage) if call.has_tokens else dict.fromkeys(TOKENS)
    return Step(
        step_id=number,
        timestamp=call.created_at.isoformat() if call.created_at else None,
        source="agent",
        **atif_steps.read_answer(message),
        metrics=Metrics(
            prompt_tokens=tokens["input_tokens"],
            cached_tokens=tokens["cache_read_tokens"],
            completion_tokens=tokens["output_tokens"],
            cost_usd=call.usage.cost_usd,
            extra={
                "cache_write_tokens": tokens["cache_write_tokens"],
                "reasoning_tokens": tokens["reasoning_tokens"],
                "cost_source": call.cost_source,
                "finish_reason": call.finish_reason,
            },
        ),
        llm_call_count=1,
    )


def _add_result(step: Step, command: RecordedCommand) -> None:
    """Add the result of a command. A model that writes its commands as text calls no tool."""
    text = make_readable(command.command)
    for call in atif_steps.find_waiting(step):
        if step_rows.command_of(call.function_name, call.arguments) == text:
            break
    else:
        calls = step.tool_calls or []
        call = ToolCall(
            tool_call_id=f"command-{len(calls)}", function_name="bash", arguments={"command": text}
        )
        step.tool_calls = [*calls, call]
    result = ObservationResult(
        source_call_id=call.tool_call_id,
        content=None if command.output is None else make_readable(command.output),
        extra=None if command.returncode is None else {"exit_code": command.returncode},
    )
    atif_steps.observe(step, result)


def write_recordings(
    experiment: str, folder: Path, repeat: int, lake: Lake
) -> Iterator[tuple[Path, int]]:
    """Write `<folder>/<arm>/<instance>.traj.json`, the model side of every ended attempt.

    `provider: recorded` replays such a folder. Yield paths and call counts.

    Raises:
        UsageError: the lake's journal has no attempt of the experiment, or one of them was pruned.
    """
    journal_url(lake)  # raises if no journal is configured
    journal = existing_journal(lake)
    attempts = journal.find("") if journal else []
    chosen = [a for a in attempts if (a.experiment, a.repeat) == (experiment, repeat)]
    if journal is None or not chosen:
        raise UsageError(f"the journal has no attempt of {experiment!r} in repeat {repeat}")
    if pruned := [a.attempt_id for a in chosen if journal.pruned_at(a.attempt_id) is not None]:
        raise UsageError(
            f"the steps of {len(pruned)} of {plural(len(chosen), 'attempt')} were pruned, such as "
            f"of {pruned[0]}: they cannot be exported"
        )
    for attempt in chosen:
        if journal.outcome(attempt.attempt_id) is None:
            continue
        replies, ends = [], []
        ended = [step for step in journal.steps(attempt.attempt_id) if step.result is not None]
        for step in map(from_record, sorted(ended, key=lambda step: step.ordinal)):
            match step.result:
                case ModelReply():
                    role = step.request.get("role", "")
                    replies.append(ScopedReply(step.scope, role, step.result))
                case CutOff(text, "time" | "too_long" as why):
                    ends.append(RecordedEnd(scope=step.scope, why=why, text=text))
        path = folder / attempt.arm / f"{attempt.instance_id}.traj.json"
        recording = recorded.to_json(
            replies,
            ends,
            instance_id=attempt.instance_id,
            model=replies[0].reply.model if replies else "none",
            native_tools=any("tool_calls" in scoped.reply.message for scoped in replies),
        )
        write_whole(path, recording.encode(errors="backslashreplace"))
        yield path, len(replies)
