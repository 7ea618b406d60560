"""From the lake to the official harness's predictions files."""

from collections.abc import Iterator
from pathlib import Path

from eval.predictions import write_jsonl
from eval.types import Prediction
from flows.errors import UsageError
from flows.lake import Lake


def predictions(
    experiment: str, output: Path | None, repeat: int, lake_path: str | None
) -> Iterator[tuple[Path, int]]:
    """Write `<output>/<arm>/all_preds.jsonl` of every arm; paths and numbers of rows.

    The attempt that counts in reports is the one that is exported. Cells without a
    prediction are left out, as the official harness wants it.

    Raises:
        ReportError: there is no such experiment.
        UsageError: it has no prediction of that repeat.
    """
    from reports.relations import open_marts  # DuckDB takes a tenth of a second to import

    lake = Lake.existing(lake_path)
    connection = open_marts(lake.root, experiment)
    rows = connection.execute(
        """
        select arm, instance_id, model_name_or_path, model_patch
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
    folder = output or lake.root / "exports" / experiment
    for arm in sorted({row[0] for row in rows}):
        own = [Prediction(*row[1:]) for row in rows if row[0] == arm]
        path = folder / arm / "all_preds.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_jsonl(path, own)
        yield path, len(own)
