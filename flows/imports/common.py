"""What all imports have in common: arms side by side under one name, and the rows of results
whose course is not known."""

import fcntl
import hashlib
import json
import math
import os
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import typer

from eval.types import EvaluationOutcome
from flows.errors import UsageError
from flows.experiments import records
from flows.experiments.cells import canonical_digest
from flows.experiments.declaration import NAME
from flows.storage.lake import Lake, Row
from reports.columns import TABLES

_OF_ARM = (
    "agent",
    "model",
    "environment",
    "dataset",
    "dataset_digest",
    "label",
    "imported_from",
)

LONGEST_NAME = 120
"""Characters of a name, which becomes that of a folder."""

IMPORTED = "-imported"
"""How the unit of a verdict ends that was given elsewhere."""


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
    """Those that its own files name."""
    label: str | None = None
    """What the import calls it; None where an older lake does not say."""
    imported_from: str | None = None
    """Identifies a file that holds several arms; None for arms that are imported one by one."""
    units: frozenset[str] | None = None
    """The units of work that it consists of: all else that was filed for it goes away. None
    adds to what is filed already."""


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
    unpriced: int = field(default=0, compare=False)
    """Results whose cost is not known, where others have one."""
    label: str = field(default="", compare=False)
    """What the import calls the arm."""


def arm_name(label: str) -> str:
    """The name of an arm that stands for somebody's label, such as `model_name_or_path`."""
    return re.sub(r"[^a-z0-9._-]+", "-", label.lower()).strip("-._") or "unnamed"


def arm_names(labels: Iterable[str], others: Iterable[ImportedArm] = ()) -> dict[str, str]:
    """Name arms apart, whichever order their labels come in. Return the names by label.

    A label whose letters cannot all be in a name, that is too long, or that another label or
    another arm would share its name with, gets a digest at the end.
    """
    labels = list(dict.fromkeys(labels))
    alike = Counter(map(arm_name, labels))
    known = {arm.name: arm.label for arm in others}

    def name(label: str) -> str:
        folded = arm_name(label)
        letters = [character for character in label if character.isalnum()]
        is_told = bool(letters) and all(character.isascii() for character in letters)
        is_free = known.get(folded) in (None, label)
        is_alone = alike[folded] == 1 or folded == label
        if is_told and is_free and is_alone and len(folded) <= LONGEST_NAME:
            return folded
        return f"{folded[:LONGEST_NAME]}-{hashlib.sha256(label.encode()).hexdigest()[:8]}"

    return {label: name(label) for label in labels}


def check_name(name: str, what: str = "results") -> None:
    """Refuse a name that no folder can have.

    Raises:
        UsageError: it is not one.
    """
    if not re.fullmatch(NAME, name):
        raise UsageError(
            f"{name!r} cannot name {what}: use lower-case letters, digits, '.', '_', '-'"
        )
    if len(name) > LONGEST_NAME + 10:
        raise UsageError(
            f"{name[:40]!r}… cannot name {what}: it has {len(name)} characters, and "
            f"{LONGEST_NAME + 10} are the most"
        )


def tell(text: str) -> None:
    """Print a line on what an operator may not expect of an import."""
    typer.echo(text, err=True)


@contextmanager
def alone(lake: Lake, experiment: str) -> Iterator[None]:
    """A block in which no other import of this machine changes what is under the name."""
    if isinstance(lake.root, Path):
        folder = lake.root / ".imports"
    else:
        place = hashlib.sha256(str(lake.root).encode()).hexdigest()[:16]
        folder = Path(tempfile.gettempdir()) / f"durabench-imports-{os.getuid()}-{place}"
    folder.mkdir(exist_ok=True)
    with (folder / f"{experiment}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tell(f"Waiting for another import under {experiment!r} to end.")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def repository(instance_id: str) -> str:
    """The repository that a SWE-bench instance id names."""
    return instance_id.rpartition("-")[0].replace("__", "/", 1) or instance_id


def declare(
    lake: Lake, experiment: str, arms: Iterable[ImportedArm], source: str | None = None
) -> int:
    """Declare arms beside those that came under the name before. Return the number of instances.

    Every arm is planned on the instances of all, so that what one of them never tried stays
    in its denominator. An arm that is imported again takes the place of the earlier one, and
    arms that came from the same `source` and are no longer among them go away. What was filed
    for either is removed first: an import that is killed leaves cells that were never run, and
    no results that its files do not hold. An import comes after the results: it declares no
    comparison.

    Raises:
        UsageError: the name cannot be one, or belongs to an experiment that was run here.
    """
    check_name(experiment)
    new = {arm.name: arm for arm in arms}
    before = {arm.name: arm for arm in declared(lake, experiment)}
    kept = {
        name: arm
        for name, arm in before.items()
        if name in new or source is None or arm.imported_from != source
    }
    for name in before.keys() - kept.keys():
        _withdraw(lake, experiment, name, frozenset())
    for name, arm in new.items():
        if arm.units is not None:
            _withdraw(lake, experiment, name, arm.units)
        elif name in before:
            ids = (*before[name].instance_ids, *arm.instance_ids)
            new[name] = replace(arm, instance_ids=tuple(dict.fromkeys(ids)))
    return _write_declaration(lake, experiment, [*(kept | new).values()])


def _write_declaration(lake: Lake, experiment: str, arms: Sequence[ImportedArm]) -> int:
    ids = list(dict.fromkeys(i for arm in arms for i in arm.instance_ids))
    declaration = {
        "name": experiment,
        "arms": [arm.name for arm in arms],
        "of_arms": [
            {column: getattr(arm, column) for column in _OF_ARM}
            | {"instances": canonical_digest(sorted(arm.instance_ids))}
            for arm in arms
        ],
        "instances": sorted(ids),
    }
    digest = canonical_digest(declaration)
    latest = _latest(lake, experiment)
    if latest and latest[0]["declaration_digest"] == digest:
        return len(ids)
    now = datetime.now(UTC)
    for order, arm in enumerate(arms):
        row = {
            **{column: getattr(arm, column) for column in _OF_ARM},
            "instance_ids": ids,
            "own_instance_ids": arm.instance_ids,
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
        unit = f"{now:%Y%m%dT%H%M%S%f}-{digest[:16]}"
        lake.write("experiments", experiment, arm.name, unit, [row])
    return len(ids)


def check_free(lake: Lake, experiment: str) -> None:
    """Refuse a name that an experiment has which was run here.

    Raises:
        UsageError: one has it.
    """
    _latest(lake, experiment)


def declared(lake: Lake, experiment: str) -> list[ImportedArm]:
    """The arms under a name by its latest declaration, in order; none if there is none.

    Raises:
        UsageError: the name belongs to an experiment that was run here.
    """
    found = []
    for row in _latest(lake, experiment):
        own = row.get("own_instance_ids")
        found.append(
            ImportedArm(
                name=json.loads(row["declaration"])["arms"][row["arm_order"]],
                instance_ids=tuple(row["instance_ids"] if own is None else own),
                **{column: row.get(column) for column in _OF_ARM},  # type: ignore[arg-type]
            )
        )
    return found


def _latest(lake: Lake, experiment: str) -> list[Row]:
    """The rows of the latest declaration that is there in full, one an arm.

    An import that was killed may have left one of which some arms are missing.
    """
    for unit in sorted(set(lake.units("experiments", "*", experiment)), reverse=True):
        found = sorted(
            lake.find("experiments", unit, experiment), key=lambda row: int(row["arm_order"])
        )
        declaration = json.loads(found[0]["declaration"])
        if "instances" not in declaration:
            raise UsageError(
                f"{experiment!r} is an experiment that was run here: choose another --name"
            )
        if len(found) == len(declaration["arms"]):
            return found
    return []


def _withdraw(lake: Lake, experiment: str, arm: str, units: frozenset[str]) -> None:
    """Remove what was filed for an arm but for these units, and for verdicts of patches among
    them that were given here.

    Attempts go last: an attempt that is listed is complete.
    """
    for table in sorted(TABLES.keys() - {"experiments"}, key=lambda name: name == "attempts"):
        for unit in lake.units(table, "*", experiment, arm):
            was_given_here = not unit.endswith(IMPORTED) and unit.partition("-")[0] in units
            if unit not in units and not was_given_here:
                lake.remove(table, experiment, arm, unit)


def prediction_id(experiment: str, arm: str, instance_id: str, patch: str | None) -> str:
    """The id of the attempt that stands for a patch."""
    sha256 = None if patch is None else records.patch_sha256(patch)
    return canonical_digest([experiment, arm, instance_id, sha256])[:32]


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
    attempt_id = prediction_id(experiment, arm, instance_id, patch)
    cell = {"attempt_id": attempt_id, "instance_id": instance_id, "repeat": 0}
    if patch is not None:
        lake.write("predictions", *where, attempt_id, [records.patch_row(cell, arm, patch)])
    filed = lake.read("attempts", *where, attempt_id)
    started_at = filed[0]["started_at"] if filed else datetime.now(UTC)
    row = bare_attempt_row(cell, repo, model=model, detail=detail, started_at=started_at)
    if filed != [row]:
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
    model_calls: int | None = None,
) -> Row:
    """The row of an attempt of which the single calls are not known, perhaps their number."""
    return {
        **attempt_columns(cell, repo, agent="imported", model=model, provider="none"),
        "outcome": "submitted",
        "detail": detail,
        **records.NO_REPORT,
        "started_at": started_at,
        **records.UNKNOWN_USAGE,
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
        **records.audit_columns(None, [], gradings=1),
        **{column: (tests or {}).get(column, []) for column in columns},
        "log_tail": "",
        "image_digest": None,
        "harness_version": harness_version,
        "timeout_s": math.nan,
        "started_at": None,
        "duration_s": None,
    }
