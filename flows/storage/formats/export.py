"""Write attempts to files that other programs read."""

import re
from collections.abc import Iterator
from pathlib import Path

from flows.errors import UsageError
from flows.storage.formats import filed
from flows.storage.formats.filed import FiledAttempt
from flows.storage.lake import Lake, write_whole


def trajectories(name: str, output: Path, lake_path: str | None) -> Iterator[Path]:
    """Write ATIF trajectories, and yield their paths.

    `name` is an experiment, whose attempts that count are written to `<output>/<arm>/`, or the
    beginning of the id of an attempt, which is written to `output`.

    Raises:
        UsageError: there is no such experiment or attempt, or the file cannot be written.
    """
    from flows.storage.formats import atif  # the package takes a tenth of a second to import

    lake = Lake.existing(lake_path)
    for path, attempt in _chosen(lake, name, output):
        content = atif.trajectory(attempt).model_dump_json(exclude_none=True, indent=1)
        write_whole(path, content.encode())
        yield path


def _chosen(lake: Lake, name: str, output: Path) -> Iterator[tuple[Path, FiledAttempt]]:
    """Yield the attempts of a name, each with the path of its file."""
    if name not in lake.experiments():
        attempt = filed.of_prefix(lake, name)
        yield output / file_name(attempt) if output.is_dir() else output, attempt
        return
    if output.is_file():
        raise UsageError(f"{output} is a file: name a folder for the attempts of {name!r}")
    for attempt in filed.of_experiment(lake, name):
        yield output / attempt.arm / file_name(attempt), attempt


def file_name(attempt: FiledAttempt) -> str:
    """Return the name of a file for an attempt."""
    instance = re.sub(r"[^\w.@+-]+", "-", attempt.row["instance_id"])
    return f"{instance}.{attempt.row['repeat']}.json"
