"""What all imports have in common: arms side by side under one name, and the rows of results
whose course is not known."""

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from eval.types import EvaluationOutcome
from flows import rows
from flows.cells import canonical_digest
from flows.errors import UsageError
from flows.experiment import NAME
from flows.lake import Lake, Row

_OF_ARM = ("agent", "model", "environment", "dataset", "dataset_digest", "instance_ids")


@dataclass(frozen=True)
class ImportedArm:
    """One arm as an import brings it."""

    name: str
    agent: str
    model: str
    environment: str
    dataset: str
    """A dataset, or the file that stands for itself."""
    dataset_digest: str
    instance_ids: tuple[str, ...]


@dataclass(frozen=True)
class Summary:
    """An arm after its import."""

    arm: str
    planned: int
    """Instances of all arms under the name."""
    found: int
    """Those that the import has something about."""
    resolved: int
    cost_usd: float | None
    """Of what has a known cost; None if nothing has."""


def arm_name(label: str) -> str:
    """The name of an arm that stands for somebody's label, such as `model_name_or_path`."""
    return re.sub(r"[^a-z0-9._-]+", "-", label.lower()).strip("-._") or "unnamed"


def repository(instance_id: str) -> str:
    """The repository that a SWE-bench instance id names."""
    return instance_id.rpartition("-")[0].replace("__", "/", 1) or instance_id


def declare(lake: Lake, experiment: str, arms: Iterable[ImportedArm]) -> int:
    """Declare arms beside those that came under the name before; the number of instances.

    Every arm is planned on the instances of all, so that what one of them never tried stays
    in its denominator. An import comes after the results: it declares no comparison.

    Raises:
        UsageError: the name cannot be one, or belongs to an experiment that was run here.
    """
    check_name(experiment)
    unit = lake.latest_unit("experiments", experiment)
    declared = _declared(lake, experiment, unit)
    earlier = [i for row in declared.values() for i in row["instance_ids"]]
    merged = declared | {arm.name: _row(arm) for arm in arms}
    ids = list(
        dict.fromkeys([*earlier, *(i for row in merged.values() for i in row["instance_ids"])])
    )
    declaration = {
        "name": experiment,
        "arms": list(merged),
        "of_arms": [
            {column: row[column] for column in _OF_ARM if column != "instance_ids"}
            for row in merged.values()
        ],
        "instances": sorted(ids),
    }
    digest = canonical_digest(declaration)
    if unit.endswith(digest[:16]):
        return len(ids)
    now = datetime.now(UTC)
    for order, (name, own) in enumerate(merged.items()):
        row = {
            **own,
            "instance_ids": ids,
            "declared_at": now,
            "declaration_digest": digest,
            "declaration": json.dumps(declaration),
            "arm_order": order,
            "simulated": False,
            "repeats": 1,
            "primary_baseline": None,
            "primary_candidate": None,
            "primary_margin": None,
            "family": [],
        }
        lake.write("experiments", experiment, name, f"{now:%Y%m%dT%H%M%S%f}-{digest[:16]}", [row])
    return len(ids)


def check_name(experiment: str) -> None:
    """Return if results can have that name.

    Raises:
        UsageError: they cannot.
    """
    if not re.fullmatch(NAME, experiment):
        raise UsageError(
            f"{experiment!r} cannot name results: use lower-case letters, digits, '.', '_', '-'"
        )


def check_free(lake: Lake, experiment: str) -> None:
    """Return if no experiment that was run here has that name.

    Raises:
        UsageError: one has.
    """
    _declared(lake, experiment, lake.latest_unit("experiments", experiment))


def _row(arm: ImportedArm) -> Row:
    return {column: getattr(arm, column) for column in _OF_ARM}


def _declared(lake: Lake, experiment: str, unit: str) -> dict[str, Row]:
    """The latest declaration of imports under a name, by arm; nothing if there is none."""
    found: dict[str, Row] = {}
    declared = lake.find("experiments", unit) if unit else []
    for row in sorted(declared, key=lambda row: row["arm_order"]):
        declaration = json.loads(row["declaration"])
        if "instances" not in declaration:
            raise UsageError(
                f"{experiment!r} is an experiment that was run here: choose another --name"
            )
        if declaration["name"] == experiment:
            name = declaration["arms"][row["arm_order"]]
            found[name] = {column: row[column] for column in _OF_ARM}
    return found


def file_prediction(
    lake: Lake,
    experiment: str,
    arm: str,
    instance_id: str,
    repo: str,
    patch: str | None,
    *,
    model: str,
    detail: str,
) -> str:
    """File a patch whose attempt is not known, or only that there was one; the attempt's id.

    The same again changes nothing.
    """
    where = (experiment, arm)
    sha256 = None if patch is None else rows.patch_sha256(patch)
    attempt_id = canonical_digest([*where, instance_id, sha256])[:32]
    if lake.has("attempts", *where, attempt_id):
        return attempt_id
    cell = {"attempt_id": attempt_id, "instance_id": instance_id, "repeat": 0}
    if patch is not None:
        lake.write("predictions", *where, attempt_id, [rows.patch_row(cell, arm, patch)])
    row = bare_attempt_row(cell, repo, model=model, detail=detail, started_at=datetime.now(UTC))
    lake.write("attempts", *where, attempt_id, [row])
    return attempt_id


def attempt_columns(cell: Row, repo: str, *, agent: str, model: str, provider: str) -> Row:
    """The columns of `attempts` that are the same for all of an import."""
    return {
        **cell,
        "repo": repo,
        "agent": agent,
        "model": model,
        "provider": provider,
        "environment": "imported",
        "duration_s": None,
        "seed": 0,
        "image": "",
        "image_digest": None,
    }


def bare_attempt_row(
    cell: Row,
    repo: str,
    *,
    model: str,
    detail: str,
    started_at: datetime | None = None,
    cost_usd: float | None = None,
    model_calls: int = 0,
) -> Row:
    """The row of an attempt of which the calls are not known."""
    return {
        **attempt_columns(cell, repo, agent="imported", model=model, provider="none"),
        "outcome": "submitted",
        "detail": detail,
        **rows.NO_REPORT,
        "started_at": started_at,
        **rows.usage_totals([]),
        "model_calls": model_calls,
        "cost_usd": cost_usd,
        "billed_usd": None,
        "versions": "{}",
    }


def evaluation_row(
    cell: Row,
    outcome: EvaluationOutcome,
    *,
    harness_version: str,
    reason: str = "",
    patch_sha256: str = "",
    tests: Mapping[str, list[str]] | None = None,
) -> Row:
    """The row of a verdict that was given elsewhere; `tests` by column."""
    lists = ("fail_to_pass", "pass_to_pass")
    columns = [f"{which}_{result}" for which in lists for result in ("success", "failure")]
    return {
        **cell,
        "patch_sha256": patch_sha256,
        "environment": "imported",
        "outcome": outcome,
        "resolved": outcome == "resolved",
        "reason": reason,
        **rows.audit_columns(None, [], gradings=1),
        **{column: (tests or {}).get(column, []) for column in columns},
        "log_tail": "",
        "image_digest": None,
        "harness_version": harness_version,
        "timeout_s": math.nan,
        "started_at": None,
        "duration_s": None,
    }
