"""Write attempts to files that other programs read."""

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from flows.display.errors import UsageError
from flows.formats import filed, inspect_package
from flows.formats.filed import FiledAttempt
from flows.storage.lake import Lake, write_whole

_LOGS = (".eval", ".json")
"""Endings of the two formats of Inspect's logs."""


def trajectories(name: str, output: Path, lake_path: str | None) -> Iterator[Path]:
    """Write ATIF trajectories, and yield their paths.

    `name` is an experiment, whose attempts that count are written to `<output>/<arm>/`, or the
    beginning of the id of an attempt, which is written to `output`.

    Raises:
        UsageError: there is no such experiment or attempt, or the file cannot be written.
    """
    from flows.formats import atif_export  # the package takes a tenth of a second to import

    lake = Lake.existing(lake_path)
    is_experiment = name in lake.experiments()
    if is_experiment and output.is_file():
        raise UsageError(f"{output} is a file: name a folder for the attempts of {name!r}")
    for attempt in _chosen(lake, name):
        path = output
        if is_experiment:
            path = output / attempt.arm / file_name(attempt)
        elif output.is_dir():
            path = output / file_name(attempt)
        content = atif_export.trajectory(attempt).model_dump_json(exclude_none=True, indent=1)
        write_whole(path, content.encode(errors="backslashreplace"))
        yield path


def inspect_log(name: str, output: Path, lake_path: str | None) -> int:
    """Write attempts as one log of Inspect. Return the number of its samples.

    `name` is an experiment or the beginning of the id of an attempt, as in `trajectories`.

    Raises:
        UsageError: there is no such experiment or attempt, the package is missing, or the file
            cannot be written.
    """
    package = inspect_package.inspect_log()
    from flows.formats import inspect_export

    if output.suffix not in _LOGS or not output.absolute().parent.is_dir():
        raise UsageError(f"{output} is no log of Inspect: name a .eval or .json file in a folder")
    lake = Lake.existing(lake_path)
    attempts = list(_chosen(lake, name))
    if not attempts:
        raise UsageError(f"experiment {name!r} has no attempt yet")
    is_experiment = name in lake.experiments()
    rates = filed.rates(lake, name) if is_experiment else {}
    log = inspect_export.log(name if is_experiment else attempts[0].experiment, attempts, rates)
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / output.name
        package.write_eval_log(log, str(written))
        write_whole(output, written.read_bytes())
    return len(attempts)


def _chosen(lake: Lake, name: str) -> Iterator[FiledAttempt]:
    """Yield the attempts of an experiment, or the one attempt whose id begins like that."""
    if name in lake.experiments():
        yield from filed.of_experiment(lake, name)
    else:
        yield filed.of_prefix(lake, name)


def file_name(attempt: FiledAttempt) -> str:
    """Return the name of a file for an attempt."""
    instance = re.sub(r"[^\w.@+-]+", "-", attempt.row["instance_id"])
    return f"{instance}.{attempt.row['repeat']}.json"
