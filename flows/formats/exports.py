"""Write what is in a lake to files: predictions, recordings, trajectories, logs, relations."""

import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from flows.display.errors import UsageError
from flows.formats import filed
from flows.formats.attempts import ExchangedAttempt
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
    from flows.formats import atif  # the package takes a tenth of a second to import

    lake = Lake.existing(lake_path)
    is_experiment = name in lake.experiments()
    if is_experiment and output.is_file():
        raise UsageError(f"{output} is a file: name a folder for the attempts of {name!r}")
    for attempt in _chosen(lake, name):
        path = output
        if is_experiment:
            path = output / str(attempt.facts.arm) / file_name(attempt)
        elif output.is_dir():
            path = output / file_name(attempt)
        atif.write(attempt, path)
        yield path


def inspect_log(name: str, output: Path, lake_path: str | None) -> int:
    """Write attempts as one log of Inspect. Return the number of its samples.

    `name` is an experiment or the beginning of the id of an attempt, as in `trajectories`.

    Raises:
        UsageError: there is no such experiment or attempt, the package is missing, or the file
            cannot be written.
    """
    from flows.formats import inspect_logs

    package = inspect_logs.load_package()
    from flows.formats import inspect_export

    if output.suffix not in _LOGS or not output.absolute().parent.is_dir():
        raise UsageError(f"{output} is no log of Inspect: name a .eval or .json file in a folder")
    lake = Lake.existing(lake_path)
    attempts = list(_chosen(lake, name))
    if not attempts:
        raise UsageError(f"experiment {name!r} has no attempt yet")
    is_experiment = name in lake.experiments()
    rates = filed.rates(lake, name) if is_experiment else {}
    log = inspect_export.log(name if is_experiment else attempts[0].source, attempts, rates)
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / output.name
        package.write_eval_log(log, str(written))
        write_whole(output, written.read_bytes())
    return len(attempts)


def _chosen(lake: Lake, name: str) -> Iterator[ExchangedAttempt]:
    """Yield the attempts of an experiment, or the one attempt whose id begins like that."""
    if name in lake.experiments():
        yield from filed.of_experiment(lake, name)
    else:
        yield filed.of_prefix(lake, name)


def file_name(attempt: ExchangedAttempt) -> str:
    """Return the name of a file for an attempt."""
    instance = re.sub(r"[^\w.@+-]+", "-", attempt.facts.instance_id)
    return f"{instance}.{attempt.facts.repeat}.json"


def relations(experiment: str, output: Path, lake_path: str | None) -> Iterator[tuple[str, int]]:
    """Write the tables of the lake, `staging` and `marts` to a DuckDB file. Yield names and rows.

    The file appears whole or not at all, and replaces an earlier one.

    Raises:
        ReportError: the experiment does not exist.
        UsageError: the file cannot be written.
    """
    from reports.relations import write_relations

    folder = output.absolute().parent
    if output.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
        raise UsageError(
            f"{output} cannot be written: name a file in an existing folder that you may write to"
        )
    lake = Lake.existing(lake_path)
    with lake.reading():
        written = write_relations(lake.root, experiment, output)
    yield from written.items()


def find_folder(lake: Lake, experiment: str) -> Path:
    """Return the export folder: beside the tables, or below the working directory if they are on an
    object store."""
    beside = lake.root if isinstance(lake.root, Path) else Path()
    return beside / "exports" / experiment
