"""Write what is in a lake to files: trajectories, logs of Inspect, relations."""

import json
import os
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from agent.arms.command import SCOPE
from flows.display.errors import UsageError
from flows.experiments import resources
from flows.formats.attempts import AttemptFacts, ExchangedAttempt
from flows.storage.files import copy_exactly, make_readable
from flows.storage.journals import existing_journal
from flows.storage.lake import Lake, Row
from flows.storage.whole_files import write_whole
from reports.types import AnalysisPlan


def trajectories(name: str, output: Path, lake_path: str | None) -> Iterator[Path]:
    """Write ATIF trajectories, and yield their paths.

    `name` is an experiment, whose attempts that count are written to `<output>/<arm>/`, or a prefix
    of the id of an attempt, which is written to `output`.

    Raises:
        UsageError: the experiment or attempt does not exist, or the file cannot be written.
    """
    from flows.formats import atif  # the package takes a tenth of a second to import

    lake = Lake.existing(lake_path)
    is_experiment = name in lake.experiments()
    if is_experiment and output.is_file():
        raise UsageError(f"{output} is a file: name a folder for the attempts of {name!r}")
    for attempt in read_attempts(lake, name):
        path = output
        if is_experiment:
            path = output / str(attempt.facts.arm) / _file_name(attempt)
        elif output.is_dir():
            path = output / _file_name(attempt)
        atif.write(attempt, path)
        yield path


def _file_name(attempt: ExchangedAttempt) -> str:
    instance = re.sub(r"[^\w.@+-]+", "-", attempt.facts.instance_id)
    return f"{instance}.{attempt.facts.repeat}.json"


def inspect_log(name: str, output: Path, lake_path: str | None) -> int:
    """Write attempts as one log of Inspect. Return the number of its samples.

    `name` is an experiment or a prefix of the id of an attempt, as in `trajectories`.

    Raises:
        UsageError: the experiment or attempt does not exist, the package is missing, or the file
            cannot be written.
    """
    from flows.formats import inspect_import

    package = inspect_import.load_package()
    from flows.formats import inspect_export
    from reports.relations import open_marts

    if output.suffix not in (".eval", ".json") or not output.absolute().parent.is_dir():
        raise UsageError(
            f"{output} is not a log of Inspect: name a .eval or .json file in a folder"
        )
    lake = Lake.existing(lake_path)
    attempts = list(read_attempts(lake, name))
    if not attempts:
        raise UsageError(f"experiment {name!r} has no attempt yet")
    title, rates = attempts[0].source, {}
    if name in lake.experiments():
        with lake.reading():
            connection = open_marts(lake.root, name)
        rows = connection.execute(
            """
            select arm, count(*) filter (where state = 'resolved'), count(*)
            from marts.cells
            group by arm, position
            order by position
            """
        ).fetchall()
        connection.close()
        title, rates = name, {arm: (resolved, planned) for arm, resolved, planned in rows}
    log = inspect_export.create_log(title, attempts, rates)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / output.name
        package.write_eval_log(log, str(path))
        write_whole(output, path.read_bytes())
    return len(attempts)


def harbor_job(name: str, output: Path, lake_path: str | None) -> int:
    """Write attempts as a job of Harbor, to a new folder. Return the number of its trials.

    `name` is an experiment or a prefix of the id of an attempt, as in `trajectories`.

    Raises:
        UsageError: the experiment or attempt does not exist, or the folder has files.
    """
    from flows.formats import harbor_export  # the package of ATIF takes a tenth of a second

    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise UsageError(f"{output} exists: name a new folder for the job")
    lake = Lake.existing(lake_path)
    attempts = list(read_attempts(lake, name))
    if not attempts:
        raise UsageError(f"experiment {name!r} has no attempt yet")
    dataset = (
        read_declared(lake, name).dataset if name in lake.experiments() else attempts[0].source
    )
    harbor_export.write_job(name, dataset, attempts, output)
    return len(attempts)


@dataclass(frozen=True)
class DeclaredExperiment:
    """What an experiment declares."""

    instances: tuple[str, ...]
    dataset: str
    plan: AnalysisPlan
    """The comparisons that were declared before the first result, or with an import."""
    is_import: bool


def read_declared(lake: Lake, name: str) -> DeclaredExperiment:
    """Return what an experiment declares."""
    from reports.analysis.plans import read_plans
    from reports.relations import open_marts

    connection = open_marts(lake.root, name, ("planned_cells", "plans"))
    [(ids, dataset, environment)] = connection.execute(
        "select instance_ids, dataset, environment from staging.experiments limit 1"
    ).fetchall()
    plan, _ = read_plans(connection)
    connection.close()
    return DeclaredExperiment(tuple(ids), dataset, plan, environment == "imported")


def read_attempts(lake: Lake, name: str, *, with_steps: bool = True) -> Iterator[ExchangedAttempt]:
    """Yield the attempts of an experiment that count in reports, by arm, instance and repeat.

    `name` may also be a prefix of the id of one attempt, which is yielded whether it counts or not.

    Raises:
        ReportError: the experiment has no report.
        UsageError: the experiment or attempt does not exist, or there are several attempts.
    """
    if name in lake.experiments():
        selection = "semi join marts.counted_attempts using (attempt_id)"
        yield from _read_selected(lake, name, selection, with_steps=with_steps)
        return
    hint = f"in {lake.root}; `durabench status NAME --cells` lists them"
    places = lake.places("attempts", f"{name}*")
    if len(places) > 1:
        raise UsageError(f"{len(places)} attempts start with {name!r} {hint}")
    attempts = [
        attempt
        for experiment, _, unit in places
        for attempt in _read_selected(lake, experiment, "where attempt_id = ?", unit)
    ]
    if not attempts:
        raise UsageError(f"no experiment and no finished attempt {name!r} {hint}")
    yield attempts[0]


def _read_selected(
    lake: Lake, experiment: str, selection: str, *parameters: str, with_steps: bool = True
) -> Iterator[ExchangedAttempt]:
    """Yield the attempts that a clause of SQL selects."""
    from flows.formats import atif_steps
    from reports.relations import open_marts  # DuckDB takes a tenth of a second to import

    with lake.reading():
        connection = open_marts(lake.root, experiment)
    selected = connection.execute(
        "select arm, attempt_id from staging.attempts "  # noqa: S608
        f"{selection} order by arm, instance_id, repeat",
        parameters,
    ).fetchall()
    evaluations = connection.execute(
        "select attempt_id, outcome, reason, reward from marts.counted_evaluations"
    ).fetchall()
    connection.close()
    verdicts = {attempt_id: verdict for attempt_id, *verdict in evaluations}
    rows = {row["attempt_id"]: row for row in lake.rows("attempts", experiment)}
    patches = {
        row["attempt_id"]: row["model_patch"] for row in lake.rows("predictions", experiment)
    }
    journal = existing_journal(lake)
    recorded = journal.find("") if journal else []
    forks = {attempt.attempt_id for attempt in recorded if attempt.parent_id is not None}
    for arm, attempt_id in selected:
        row, patch = rows[attempt_id], patches.get(attempt_id)
        verdict, reason, reward = verdicts.get(attempt_id, (None, "", None))
        facts = AttemptFacts.model_validate(
            {
                **{name: row[name] for name in AttemptFacts.model_fields if name in row},
                "arm": arm,
                "versions": json.loads(row["versions"]),
                "patch": None if patch is None else make_readable(patch),
                "patch_json": None if patch is None else copy_exactly(patch),
                "verdict": verdict,
                "reason": reason,
                "reward": reward,
            }
        )
        limits = {name: f"{row[name]:g}" for name in resources.UNKNOWN if row[name] is not None}
        attempt = ExchangedAttempt(facts, experiment, attempt_id, settings=limits)
        attempt = _name_agent(attempt, row)
        if not with_steps:
            yield attempt
            continue
        copied = set()  # empty if the steps of a fork were pruned
        if journal is not None and attempt_id in forks:
            steps = journal.steps(attempt_id)
            copied = {(step.scope, step.seq) for step in steps if step.copied}
        where = (experiment, arm, attempt_id)
        did, called = lake.read("steps", *where), lake.read("llm_calls", *where)
        if facts.agent == "command" and any(row["scope"] == SCOPE for row in did):
            did, called = _select_of_program(did), _select_of_program(called)
            copied = {("", seq) for scope, seq in copied if scope == SCOPE}
        yield replace(attempt, lines=atif_steps.lines(did, called, attempt.model, copied))


def _name_agent(attempt: ExchangedAttempt, row: Row) -> ExchangedAttempt:
    """Return an attempt with the name of its program and the release of its agent."""
    versions, report = attempt.facts.versions, json.loads(row["report"] or "{}")
    if attempt.facts.agent == "command":
        program = str(report.get("command", {}).get("recipe", ""))
        return replace(attempt, program=program, version=row.get("agent_version") or "")
    release = versions.get(attempt.facts.agent) or versions.get("durabench", "")
    return replace(attempt, version=release)


def _select_of_program(rows: list[Row]) -> list[Row]:
    """Return the rows of a program's own steps, as rows of the main line."""
    own = (row for row in rows if row["scope"] == SCOPE and row.get("kind") != "action")
    return [{**row, "scope": ""} for row in own]


def relations(
    experiment: str | None, output: Path, lake_path: str | None
) -> Iterator[tuple[str, int]]:
    """Write the tables of the lake, `staging` and `marts` to a DuckDB file. Yield names and rows.

    The default is all experiments. The file appears whole or not at all,
    and replaces an earlier one.

    Raises:
        ReportError: the experiment does not exist, or there is none.
        UsageError: the file cannot be written.
    """
    from reports.lake import require_experiments
    from reports.relations import write_relations

    folder = output.absolute().parent
    if output.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
        raise UsageError(
            f"{output} cannot be written: name a file in an existing folder that you may write to"
        )
    lake = Lake.existing(lake_path)
    with lake.reading():
        names = [experiment] if experiment else require_experiments(lake.root)
        written = write_relations(lake.root, names, output)
    yield from written.items()


def find_folder(lake: Lake, experiment: str) -> Path:
    """Return the export folder: in the lake, or in the working directory for an object store."""
    parent = lake.root if isinstance(lake.root, Path) else Path()
    return parent / "exports" / experiment
