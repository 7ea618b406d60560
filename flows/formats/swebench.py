"""Submissions graded by swebench: its reports are read, and its predictions files are written."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eval import predictions
from eval.types import EvaluationOutcome, Prediction
from flows.display.errors import UsageError
from flows.formats import attempts, lake_rows
from flows.formats.attempts import ExchangedAttempt, ReadFiles, read_content
from flows.formats.folders import find_files, refuse_link
from flows.storage.files import restore
from flows.storage.lake import Lake

PREDICTIONS = "all_preds.jsonl"
"""Name of the predictions file in a folder."""

SUBMITTED = (PREDICTIONS, "preds.json")
"""Names of predictions files in a folder."""


@dataclass(frozen=True)
class ImportedVerdict:
    """A report's result for one prediction."""

    outcome: EvaluationOutcome
    reason: str = ""
    tests: Mapping[str, list[str]] = field(default_factory=dict)
    """Test lists by column of `evaluations`; empty if the report has none."""


@dataclass(frozen=True)
class Reported:
    """The content of a report in any format."""

    form: str
    verdicts: dict[str, ImportedVerdict]
    """Verdicts by instance id."""
    planned: list[str]
    """Every instance named in the report, including those without a prediction."""
    submitted: list[str] | None
    """The instances with a prediction; None if only the predictions file lists them."""
    patches: dict[str, str] = field(default_factory=dict)
    """Patches by instance id, if the report includes them."""
    rest: ImportedVerdict | None = None
    """Verdict on patches that the report does not name; None if it is unknown."""


def read(report: Path, predictions_path: Path | None, arm: str | None) -> ReadFiles:
    """Read a submission. `arm` names it; None takes the model of its predictions.

    `report` is the JSON of a run, the `results.json` of a leaderboard submission, or a folder with
    a `report.json` per instance. An instance without a prediction was never run.

    Raises:
        UsageError, PredictionsError: a file cannot be used, or the files belong to different
            submissions.
    """
    reported = _read_report(report)
    if predictions_path is None and (report / PREDICTIONS).is_file():
        predictions_path = report / PREDICTIONS
    listed = predictions.read(predictions_path) if predictions_path else None
    patches = reported.patches | {p.instance_id: p.model_patch for p in listed or []}
    label = arm or _find_label(report, listed)
    read_attempts = []
    for instance_id in dict.fromkeys(_list_submitted(report, reported, listed)):
        patch = patches.get(instance_id)
        rest = reported.rest if patch else None
        verdict = reported.verdicts.get(instance_id, rest)
        facts = attempts.describe(
            str(report),
            {},
            arm=label,
            agent="imported",
            model="unknown",
            instance_id=instance_id,
            repo=lake_rows.repository(instance_id),
            outcome="submitted",
            detail=reported.form,
            patch=patch,
            verdict=verdict and verdict.outcome,
            reason=verdict.reason if verdict else "",
        )
        tests = verdict.tests if verdict else {}
        read_attempts.append(
            ExchangedAttempt(facts, str(report), None, tests=tests, graded_by=reported.form)
        )
    return ReadFiles(read_attempts, report.name, reported.planned)


def find_submission(path: Path) -> tuple[Path, Path | None]:
    """Return the report and the predictions of a submission, from either or from their folder.

    Raises:
        UsageError: there is no report, or there are several.
    """
    folder = path if path.is_dir() else path.parent
    predictions_path = next((p for name in SUBMITTED if (p := folder / name).is_file()), None)
    if path.is_file() and _is_report(path):
        return path, predictions_path
    report = find_report(folder)
    if report is None:
        raise UsageError(
            f"{path} has predictions without verdicts, and no report of swebench is beside them: "
            "grade them first with `durabench grade`, or put the report into the folder"
        )
    return report, predictions_path if path.is_dir() else path


def find_report(folder: Path) -> Path | None:
    """Return the report on a submission that a folder holds; None if it holds none.

    Raises:
        UsageError: it holds several.
    """
    reports = [
        path
        for path in sorted(folder.glob("*.json"))
        # These are long, and never a report.
        if path.name not in SUBMITTED and not path.name.endswith(".traj.json") and _is_report(path)
    ]
    if len(reports) > 1:
        names = ", ".join(path.name for path in reports)
        raise UsageError(f"{folder} holds several reports of swebench ({names}): name one of them")
    if not reports and next(folder.rglob("patch.diff"), None):
        return folder
    return next(iter(reports), None)


def read_verdicts(report: Path) -> Callable[[str], ImportedVerdict | None]:
    """Return a function from an instance id to its verdict, of a file or of a folder of logs."""
    reported = _read_report(report)
    return lambda instance_id: reported.verdicts.get(instance_id, reported.rest)


def _read_report(path: Path) -> Reported:
    return _read_folder(path) if path.is_dir() else _read_file(path)


def _is_report(path: Path) -> bool:
    try:
        content = _read_json(path)
    except UsageError:
        return False
    if not isinstance(content, dict) or "instance_id" in content:
        return False
    return isinstance(content.get("resolved_ids", content.get("resolved")), list)


def _list_submitted(report: Path, reported: Reported, listed: list[Prediction] | None) -> list[str]:
    """Return the instances with a prediction. Report and predictions must agree."""
    submitted = reported.submitted
    if listed is None:
        if submitted is None:
            raise UsageError(
                f"{report} does not name every prediction: give them with --predictions"
            )
        return submitted
    ids = [prediction.instance_id for prediction in listed]
    strange = reported.verdicts.keys() - ids
    # A folder only contains instances that were run.
    if submitted is not None and not reported.patches:
        strange |= {*ids} ^ {*submitted}
    if strange:
        raise UsageError(
            f"{report} is not about these predictions: {min(strange)} is in one of the two only"
        )
    return ids


def _find_label(report: Path, listed: list[Prediction] | None) -> str:
    labels = sorted({prediction.model_name_or_path for prediction in listed or []})
    if len(labels) > 1:
        raise UsageError(
            f"the predictions are of several models ({', '.join(labels)}): import one at a time"
        )
    if not labels and not report.is_dir():
        raise UsageError(f"{report} does not name its model: give --predictions or --arm")
    return labels[0] if labels else report.resolve().name


def _read_file(path: Path) -> Reported:
    content = _read_json(path)
    if isinstance(content, dict) and isinstance(content.get("resolved_ids"), list):
        return _read_run_report(content)
    if not isinstance(content, dict) or not isinstance(content.get("resolved"), list):
        raise UsageError(
            f"{path} is not a run report of swebench: it has neither resolved_ids nor resolved"
        )
    # The `results.json` of the public leaderboard names resolved and missing instances.
    no_logs = _read_names(content.get("no_logs", []))
    verdicts = {i: ImportedVerdict("unresolved", "no log") for i in no_logs}
    verdicts |= {i: ImportedVerdict("resolved") for i in _read_names(content["resolved"])}
    return Reported(
        form="leaderboard results",
        verdicts=verdicts,
        planned=sorted({*verdicts, *_read_names(content.get("no_generation", []))}),
        submitted=None,
        rest=ImportedVerdict("unresolved"),
    )


def _read_run_report(content: dict[str, Any]) -> Reported:
    """Parse the JSON that swebench writes at the end of a run."""

    def ids(kind: str) -> list[str]:
        return _read_names(content.get(f"{kind}_ids", []))

    reasons = content.get("failure_reasons", {})
    verdicts = {i: ImportedVerdict("unresolved") for i in ids("unresolved")}
    verdicts |= {i: _read_error(reasons.get(i, "")) for i in ids("error")}
    verdicts |= {
        i: ImportedVerdict("infrastructure", reasons.get(i, "")) for i in ids("infra_failure")
    }
    verdicts |= {i: ImportedVerdict("resolved") for i in ids("resolved")}
    submitted = ids("submitted") or sorted({*verdicts, *ids("empty_patch")})
    return Reported(
        form=f"swebench run report, schema {content.get('schema_version', 'unknown')}",
        verdicts=verdicts,
        planned=sorted({*submitted, *ids("incomplete")}),
        submitted=submitted,
    )


def _read_error(reason: str) -> ImportedVerdict:
    """Return the verdict for a runner error, usually a patch that does not apply."""
    if reason == "tests_timed_out":
        return ImportedVerdict("timeout", reason)
    return ImportedVerdict(
        "unresolved", f"the runner ended with an error{reason and f': {reason}'}"
    )


def _read_folder(folder: Path) -> Reported:
    """Parse the logs of a run: a folder per instance, with a report if the run got that far."""
    verdicts: dict[str, ImportedVerdict] = {}
    patches: dict[str, str] = {}
    for patch in find_files(folder, "patch.diff"):
        instance_id = patch.parent.name
        if instance_id in patches:
            raise UsageError(f"{folder} has {instance_id} twice: give the folder of one run")
        # read_text() would change line endings
        patches[instance_id] = patch.read_bytes().decode("utf-8", "surrogateescape")
        report = refuse_link(patch.with_name("report.json"), folder)
        verdicts[instance_id] = _read_verdict(report) if report.is_file() else _read_error("")
    if not patches:
        raise UsageError(f"{folder} contains no folder of an instance with a patch.diff")
    ids = sorted(patches)
    return Reported("swebench instance reports", verdicts, ids, ids, patches)


def _read_verdict(path: Path) -> ImportedVerdict:
    content = _read_json(path)
    try:
        report = content[path.parent.name]
        tests = {
            f"{which.lower()}_{result}": list(names)
            for which, lists in report.get("tests_status", {}).items()
            if which in ("FAIL_TO_PASS", "PASS_TO_PASS")
            for result, names in lists.items()
        }
        reason = report.get("infra_failure_reason", "")
        if report["resolved"]:
            return ImportedVerdict("resolved", "", tests)
        if report.get("infra_failure"):
            return ImportedVerdict("infrastructure", reason)
        return ImportedVerdict("unresolved", reason, tests)
    except (KeyError, TypeError, AttributeError):
        raise UsageError(f"{path} is not a report of swebench on {path.parent.name}") from None


def _read_names(value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise UsageError(f"a report of swebench has {value!r:.100} instead of ids of instances")
    return value


def _read_json(path: Path) -> Any:
    try:
        return json.loads(read_content(path))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not JSON: {error}") from None


def write_predictions(
    experiment: str, folder: Path, repeat: int, lake: Lake
) -> Iterator[tuple[Path, int]]:
    """Write `<folder>/<arm>/all_preds.jsonl` for every arm. Yield paths and row counts.

    The attempts that count in reports are exported. Cells without a prediction are left out, as the
    official harness requires.

    Raises:
        ReportError: the experiment does not exist.
        UsageError: the experiment has no prediction for that repeat.
    """
    from reports.relations import open_marts  # DuckDB takes a tenth of a second to import

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
    for arm in sorted({row[0] for row in rows}):
        listed = [
            Prediction(instance_id, model, restore(patch, copy))
            for of, instance_id, model, patch, copy in rows
            if of == arm
        ]
        path = folder / arm / PREDICTIONS
        path.parent.mkdir(parents=True, exist_ok=True)
        predictions.write_jsonl(path, listed)
        yield path, len(listed)
