"""Exports: predictions for the official harness, recordings of attempts, relations for SQL."""

import os
from collections.abc import Iterator
from pathlib import Path

from agent.journal import Journal
from agent.models import recorded
from agent.models.protocol import ModelReply
from agent.models.recorded import ScopedEnd, ScopedReply
from agent.session.steps import CutOff, from_record
from eval.predictions import write_jsonl
from eval.types import Prediction
from flows.display.errors import UsageError
from flows.storage.files import restore
from flows.storage.journals import existing_journal, journal_url
from flows.storage.lake import Lake, write_whole


def predictions(
    experiment: str, output: Path | None, repeat: int, lake_path: str | None
) -> Iterator[tuple[Path, int]]:
    """Write `<output>/<arm>/all_preds.jsonl` for every arm. Yield paths and row counts.

    The exported attempt is the one that counts in reports. Cells without a prediction are left out,
    as the official harness requires.

    Raises:
        ReportError: the experiment does not exist.
        UsageError: the experiment has no prediction for that repeat.
    """
    from reports.relations import open_marts  # DuckDB takes a tenth of a second to import

    lake = Lake.existing(lake_path)
    with lake.reading():
        connection = open_marts(lake.root, experiment)
    rows = connection.execute(
        """
        select arm, instance_id, model_name_or_path, model_patch, model_patch_json
        from predictions
        semi join marts.counted_attempts using (attempt_id)
        where repeat = ?
        order by arm, instance_id
        """,
        [repeat],
    ).fetchall()
    connection.close()
    if not rows:
        raise UsageError(f"experiment {experiment!r} has no prediction of repeat {repeat}")
    folder = output or _folder(lake, experiment)
    for arm in sorted({row[0] for row in rows}):
        own = [
            Prediction(instance_id, model, restore(patch, copy))
            for of, instance_id, model, patch, copy in rows
            if of == arm
        ]
        path = folder / arm / "all_preds.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_jsonl(path, own)
        yield path, len(own)


def trajectories(
    experiment: str, output: Path | None, repeat: int, lake_path: str | None
) -> Iterator[tuple[Path, int]]:
    """Write `<output>/<arm>/<instance>.traj.json`, the model side of every ended attempt.

    `provider: recorded` replays such a folder. Yield paths and call counts.

    Raises:
        UsageError: the lake's journal has no attempt of the experiment, or one of them was pruned.
    """
    lake = Lake.existing(lake_path)
    journal_url(lake)  # raises if no journal is configured
    journal = existing_journal(lake)
    attempts = journal.find("") if journal else []
    chosen = [a for a in attempts if (a.experiment, a.repeat) == (experiment, repeat)]
    if journal is None or not chosen:
        raise UsageError(f"the journal has no attempt of {experiment!r} in repeat {repeat}")
    if pruned := [a.attempt_id for a in chosen if journal.pruned_at(a.attempt_id) is not None]:
        raise UsageError(
            f"the steps of {len(pruned)} of {len(chosen)} attempts were pruned, such as of "
            f"{pruned[0]}: they cannot be exported"
        )
    folder = output or _folder(lake, experiment)
    for attempt in chosen:
        if journal.outcome(attempt.attempt_id) is None:
            continue
        replies, ends = _recording(journal, attempt.attempt_id)
        path = folder / attempt.arm / f"{attempt.instance_id}.traj.json"
        recording = recorded.to_json(
            replies,
            ends,
            instance_id=attempt.instance_id,
            model=replies[0].reply.model if replies else "none",
            native_tools=any("tool_calls" in each.reply.message for each in replies),
        )
        write_whole(path, recording.encode(errors="backslashreplace"))
        yield path, len(replies)


def relations(experiment: str, output: Path, lake_path: str | None) -> Iterator[tuple[str, int]]:
    """Write the tables of the lake, `staging` and `marts` to a DuckDB file. Yield names and rows.

    The file appears whole or not at all, and replaces an earlier one.

    Raises:
        ReportError: the experiment does not exist.
        UsageError: the file cannot be written.
    """
    from reports.exporting import write_relations

    folder = output.absolute().parent
    if output.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
        raise UsageError(
            f"{output} cannot be written: name a file in an existing folder that you may write to"
        )
    lake = Lake.existing(lake_path)
    with lake.reading():
        written = write_relations(lake.root, experiment, output)
    yield from written.items()


def _folder(lake: Lake, experiment: str) -> Path:
    """Return the export folder: beside the tables, or below the working directory if they are on an
    object store."""
    beside = lake.root if isinstance(lake.root, Path) else Path()
    return beside / "exports" / experiment


def _recording(journal: Journal, attempt_id: str) -> tuple[list[ScopedReply], list[ScopedEnd]]:
    """Return the model replies of an attempt, and the points where it was cut off."""
    ended = [step for step in journal.steps(attempt_id) if step.result is not None]
    replies, ends = [], []
    for step in map(from_record, sorted(ended, key=lambda step: step.ordinal)):
        match step.result:
            case ModelReply():
                role = step.request.get("role", "")
                replies.append(ScopedReply(step.scope, role, step.result))
            case CutOff(text, "time" | "too_long" as why):
                ends.append(ScopedEnd(step.scope, why, text))
    return replies, ends
