"""Import a published submission from the reports of swebench's runner."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eval import predictions
from eval.digests import canonical_digest
from eval.types import EvaluationOutcome, Prediction
from flows.display.errors import UsageError
from flows.experiments import records
from flows.formats import imported_arms, lake_rows
from flows.formats.comparisons import Comparisons
from flows.formats.imported_arms import ImportedArm, Summary
from flows.storage.lake import Lake

PREDICTIONS = "all_preds.jsonl"
"""Name of the predictions file in a folder."""


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
    """The instances with a prediction; None if only the predictions file can tell."""
    patches: dict[str, str] = field(default_factory=dict)
    """Patches by instance id, if the report includes them."""
    rest: ImportedVerdict | None = None
    """Verdict on patches that the report does not name; None if it is unknown."""


@dataclass(frozen=True)
class _Prediction:
    """One prediction to record."""

    attempt_id: str
    patch: str | None
    """None if unknown."""
    verdict: ImportedVerdict | None

    @property
    def units(self) -> tuple[str, ...]:
        """Units of work recorded for the prediction."""
        given = (f"{self.attempt_id}{imported_arms.IMPORTED}",) if self.verdict else ()
        return (self.attempt_id, *given)


def import_swebench(
    report: Path,
    predictions_path: Path | None,
    experiment: str,
    arm: str | None,
    lake_path: str | None,
    comparisons: Comparisons | None = None,
) -> Summary:
    """Import a submission as an arm beside those already imported under the name.

    `report` is the JSON of a run, the `results.json` of a leaderboard submission, or a folder with
    a `report.json` per instance. An instance without a prediction was never run.

    Raises:
        UsageError, PredictionsError: a file cannot be used, or the files belong to different
            submissions; nothing was written.
    """
    reported = _read_folder(report) if report.is_dir() else _read_file(report)
    if predictions_path is None and (report / PREDICTIONS).is_file():
        predictions_path = report / PREDICTIONS
    given = predictions.read(predictions_path) if predictions_path else None
    patches = reported.patches | {p.instance_id: p.model_patch for p in given or []}
    submitted = _submitted(report, reported, given)
    label = arm or _label(report, given)
    imported_arms.check_name(experiment)
    lake = Lake.open(lake_path)
    with imported_arms.alone(lake, experiment):
        name = imported_arms.arm_names([label], imported_arms.declared(lake, experiment))[label]
        found = {
            instance_id: _Prediction(
                imported_arms.prediction_id(
                    experiment, name, instance_id, patch := patches.get(instance_id)
                ),
                patch,
                reported.verdicts.get(instance_id, reported.rest if patch else None),
            )
            for instance_id in submitted
        }
        planned = _declare(lake, experiment, name, label, report, reported, found, comparisons)
        for instance_id, prediction in found.items():
            _file(lake, experiment, name, reported.form, instance_id, prediction)
    resolved = sum(verdict.outcome == "resolved" for verdict in reported.verdicts.values())
    return Summary(
        name, planned, found=len(submitted), resolved=resolved, cost_usd=None, label=label
    )


def _declare(
    lake: Lake,
    experiment: str,
    name: str,
    label: str,
    report: Path,
    reported: Reported,
    found: Mapping[str, _Prediction],
    comparisons: Comparisons | None,
) -> int:
    ids = tuple(sorted({*reported.planned, *found}))
    arm = ImportedArm(
        name,
        agent="imported",
        model="unknown",
        environment="imported",
        dataset=report.name,
        dataset_digest=canonical_digest(ids),
        instance_ids=ids,
        label=label,
        units=frozenset(unit for prediction in found.values() for unit in prediction.units),
    )
    return imported_arms.declare(lake, experiment, [arm], comparisons=comparisons)


def _file(
    lake: Lake,
    experiment: str,
    arm: str,
    form: str,
    instance_id: str,
    prediction: _Prediction,
) -> None:
    patch, verdict = prediction.patch, prediction.verdict
    repo = lake_rows.repository(instance_id)
    attempt_id = imported_arms.file_prediction(
        lake, experiment, arm, instance_id, repo, patch, detail=form
    )
    if verdict is None:
        return
    row = lake_rows.evaluation_row(
        {"attempt_id": attempt_id, "instance_id": instance_id, "repeat": 0},
        verdict.outcome,
        harness_version=form,
        reason=verdict.reason,
        patch_sha256=records.patch_sha256(patch) if patch is not None else "",
        tests=verdict.tests,
    )
    lake.write("evaluations", experiment, arm, f"{attempt_id}{imported_arms.IMPORTED}", [row])


def _submitted(report: Path, reported: Reported, given: list[Prediction] | None) -> list[str]:
    """Return the instances with a prediction. Report and predictions have to agree."""
    own = reported.submitted
    if given is None:
        if own is None:
            raise UsageError(
                f"{report} does not name every prediction: give them with --predictions"
            )
        return own
    ids = [prediction.instance_id for prediction in given]
    strange = reported.verdicts.keys() - ids
    # A folder only contains instances that were run.
    if own is not None and not reported.patches:
        strange |= {*ids} ^ {*own}
    if strange:
        raise UsageError(
            f"{report} is not about these predictions: {min(strange)} is in one of the two only"
        )
    return ids


def _label(report: Path, given: list[Prediction] | None) -> str:
    labels = sorted({prediction.model_name_or_path for prediction in given or []})
    if len(labels) > 1:
        raise UsageError(
            f"the predictions are of several models ({', '.join(labels)}): import one at a time"
        )
    if not labels and not report.is_dir():
        raise UsageError(f"{report} does not say whose it is: give --predictions or --arm")
    return labels[0] if labels else report.resolve().name


def _read_file(path: Path) -> Reported:
    content = _json(path)
    if isinstance(content, dict) and isinstance(content.get("resolved_ids"), list):
        return _run_report(content)
    if isinstance(content, dict) and isinstance(content.get("resolved"), list):
        return _results(content)
    raise UsageError(
        f"{path} is no run report of swebench: it has neither resolved_ids nor resolved"
    )


def _run_report(content: dict[str, Any]) -> Reported:
    """Parse the JSON that swebench writes at the end of a run."""

    def ids(kind: str) -> list[str]:
        return list(content.get(f"{kind}_ids", ()))

    reasons = content.get("failure_reasons", {})
    verdicts = {i: ImportedVerdict("unresolved") for i in ids("unresolved")}
    verdicts |= {i: _error(reasons.get(i, "")) for i in ids("error")}
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


def _error(reason: str) -> ImportedVerdict:
    """Return the verdict for a runner error, usually a patch that does not apply."""
    if reason == "tests_timed_out":
        return ImportedVerdict("timeout", reason)
    return ImportedVerdict(
        "unresolved", f"the runner ended with an error{reason and f': {reason}'}"
    )


def _results(content: dict[str, Any]) -> Reported:
    """Parse the `results.json` of the public leaderboard: resolved and missing instances."""
    verdicts = {i: ImportedVerdict("unresolved", "no log") for i in content.get("no_logs", ())}
    verdicts |= {i: ImportedVerdict("resolved") for i in content["resolved"]}
    return Reported(
        form="leaderboard results",
        verdicts=verdicts,
        planned=sorted({*verdicts, *content.get("no_generation", ())}),
        submitted=None,
        rest=ImportedVerdict("unresolved"),
    )


def _read_folder(folder: Path) -> Reported:
    """Parse the logs of a run: a folder per instance, with a report if the run got that far."""
    verdicts: dict[str, ImportedVerdict] = {}
    patches: dict[str, str] = {}
    for patch in sorted(folder.rglob("patch.diff")):
        instance_id = patch.parent.name
        if instance_id in patches:
            raise UsageError(f"{folder} has {instance_id} twice: give the folder of one run")
        # read_text() would change line endings
        patches[instance_id] = patch.read_bytes().decode("utf-8", "surrogateescape")
        report = patch.with_name("report.json")
        verdicts[instance_id] = _verdict(report) if report.is_file() else _error("")
    if not patches:
        raise UsageError(f"{folder} has no folder of an instance with a patch.diff in it")
    ids = sorted(patches)
    return Reported("swebench instance reports", verdicts, ids, ids, patches)


def _verdict(path: Path) -> ImportedVerdict:
    content = _json(path)
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
        raise UsageError(f"{path} is no report of swebench on {path.parent.name}") from None


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"{path} is not JSON: {error}") from None
