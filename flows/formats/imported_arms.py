"""Code shared by all imports: arms under one name, and rows of results without an attempt."""

import fcntl
import hashlib
import json
import os
import re
import tempfile
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from eval.digests import canonical_digest
from flows.display.errors import UsageError
from flows.display.terminal import warn
from flows.storage.files import patch_sha256
from flows.storage.lake import NAME, Lake, Row
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
"""Maximum length of a name, which is also a folder name."""

IMPORTED = "-imported"
"""Suffix of the unit of an imported verdict."""


_NOTHING: Row = {
    "primary_baseline": None,
    "primary_candidate": None,
    "primary_margin": None,
    "family": [],
}
"""These columns if nothing is declared."""


@dataclass(frozen=True)
class Comparisons:
    """Declared comparisons. Each is text of the form BASELINE:CANDIDATE."""

    primary: str
    margin: float | None = None
    """Largest loss at which the primary candidate still counts as not worse, as a share."""
    family: tuple[str, ...] = ()


@dataclass(frozen=True)
class ImportedArm:
    """One imported arm."""

    name: str
    agent: str
    model: str
    environment: str
    dataset: str
    """A dataset, or a file that takes its place."""
    dataset_digest: str
    instance_ids: tuple[str, ...]
    """Instances named in the arm's own files."""
    label: str | None = None
    """Name of the arm in the import; None if an older lake does not record it."""
    imported_from: str | None = None
    """Identifies a file with several arms; None for arms that are imported individually."""
    units: frozenset[str] | None = None
    """The arm's complete units of work: all other recorded units of the arm are removed. With None,
    the import adds to the recorded units."""
    repeats: int = 1
    """Planned attempts per instance."""


@dataclass(frozen=True)
class Summary:
    """An arm after its import."""

    arm: str
    planned: int
    """Number of cells: instances of all arms under the name × repeats of the arm."""
    found: int
    """Number of cells with data in the import."""
    resolved: int
    cost_usd: float | None
    """Total of the known costs; None if no cost is known."""
    unpriced: int = field(default=0, compare=False)
    """Number of results with unknown cost, in an arm where others have one."""
    label: str = field(default="", compare=False)
    """Name of the arm in the import."""
    calls: int | None = field(default=None, compare=False)
    """Number of model calls; None if it is unknown for an attempt."""
    calls_without_cost: Mapping[str, int] = field(default_factory=dict, compare=False)
    """Instance id to number of calls, of attempts with such calls."""


def arm_name(label: str) -> str:
    """Return the arm name for an external label, such as `model_name_or_path`.

    It has the letters and digits of every script, and symbols such as emoji; `-` replaces others.
    """
    composed = unicodedata.normalize("NFC", label.lower())
    allowed = (character if _is_allowed(character) else " " for character in composed)
    return re.sub(r" +", "-", "".join(allowed)).strip("-._") or "unnamed"


def _is_allowed(character: str) -> bool:
    if character.isascii():
        return character.isalnum() or character in "._-"
    category = unicodedata.category(character)
    is_selector = "VARIATION SELECTOR" in unicodedata.name(character, "")
    return not is_selector and (category[0] in "LMN" or category in ("So", "Sk"))


def arm_names(labels: Iterable[str], others: Iterable[ImportedArm] = ()) -> dict[str, str]:
    """Return unique arm names by label, independent of the order of the labels.

    A digest is appended if the label has no character that a name can contain, is too long, or
    would share its name with another label or arm.
    """
    labels = list(dict.fromkeys(labels))
    alike = Counter(map(arm_name, labels))
    taken = {arm.name: arm.label for arm in others}

    def name(label: str) -> str:
        folded = arm_name(label)
        has_name = folded != "unnamed" or label.strip().lower() == folded
        is_free = taken.get(folded) in (None, label)
        is_alone = alike[folded] == 1 or folded == label
        start = folded.encode()[:LONGEST_NAME].decode(errors="ignore")
        if has_name and is_free and is_alone and start == folded:
            return folded
        return f"{start}-{hashlib.sha256(label.encode()).hexdigest()[:8]}"

    return {label: name(label) for label in labels}


def check_name(name: str, what: str = "results") -> None:
    """Check that a name is a valid folder name.

    Raises:
        UsageError: the name is invalid.
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


def read_comparisons(
    primary: str | None, margin: float | None, family: Sequence[str]
) -> Comparisons | None:
    """Return the comparisons of the command line; None if there is none.

    Raises:
        UsageError: a margin or a family lacks a primary comparison, or the margin is not a share.
    """
    if primary is None:
        if margin is not None or family:
            raise UsageError("a margin and a family need --primary BASELINE:CANDIDATE")
        return None
    if margin is not None and not 0 < margin < 1:
        raise UsageError(f"--margin {margin:g} is not a share: 0.05 is five percentage points")
    return Comparisons(primary, margin, tuple(family))


@contextmanager
def alone(lake: Lake, experiment: str) -> Iterator[None]:
    """Exclude other imports under the same name on this machine during the block."""
    if isinstance(lake.root, Path):
        lake.make_folder()
        folder = lake.root / ".imports"
    else:
        place = hashlib.sha256(str(lake.root).encode()).hexdigest()[:16]
        folder = Path(tempfile.gettempdir()) / f"durabench-imports-{os.getuid()}-{place}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{experiment}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            warn(f"Waiting for another import under {experiment!r} to end.")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def declare(
    lake: Lake,
    experiment: str,
    arms: Iterable[ImportedArm],
    source: str | None = None,
    comparisons: Comparisons | None = None,
) -> int:
    """Declare arms in addition to earlier imports of the name. Return the number of instances.

    Every arm is planned on the instances of all arms, so that instances it never tried stay in its
    denominator. An arm in `arms` replaces an earlier import of it. Earlier arms from the same
    `source` that are not in `arms` are removed. The old rows are removed first: a killed import
    then leaves cells that were never run, but no results that its files do not contain. Without
    `comparisons`, the comparisons of an earlier import remain.

    Raises:
        UsageError: the name is invalid or belongs to an experiment that was run in this lake, or a
            comparison is not of two of these arms.
    """
    check_name(experiment)
    new = {arm.name: arm for arm in arms}
    before = {arm.name: arm for arm in load_arms(lake, experiment)}
    remaining = {
        name: arm
        for name, arm in before.items()
        if name in new or source is None or arm.imported_from != source
    }
    if comparisons:
        names = [(arm.name, arm.label) for arm in (remaining | new).values()]
        plan = _declare_comparisons(comparisons, names)
    elif latest := _read_latest(lake, experiment):
        plan = {name: latest[0][name] for name in _NOTHING}
    else:
        plan = _NOTHING
    for name in before.keys() - remaining.keys():
        _withdraw(lake, experiment, name, frozenset())
    for name, arm in new.items():
        if arm.units is not None:
            _withdraw(lake, experiment, name, arm.units)
        elif name in before:
            ids = (*before[name].instance_ids, *arm.instance_ids)
            new[name] = replace(arm, instance_ids=tuple(dict.fromkeys(ids)))
    return _write_declaration(lake, experiment, [*(remaining | new).values()], plan)


def _declare_comparisons(comparisons: Comparisons, names: Iterable[tuple[str, str | None]]) -> Row:
    """Return the columns of `experiments` that declare comparisons of arms.

    `names` has the name of each arm and its label, and a comparison may use either.
    """
    by_label = {label: name for name, label in names if label}
    by_label |= {name: name for name in by_label.values()}
    pairs = [_parse_pair(text, by_label) for text in (comparisons.primary, *comparisons.family)]
    if len({frozenset(pair) for pair in pairs}) < len(pairs):
        raise UsageError("a comparison is declared twice: name each pair of arms once")
    (baseline, candidate), *family = pairs
    return {
        "primary_baseline": baseline,
        "primary_candidate": candidate,
        "primary_margin": comparisons.margin,
        "family": [{"baseline": first, "candidate": second} for first, second in family],
    }


def _parse_pair(text: str, by_label: dict[str, str]) -> tuple[str, str]:
    """Return the names of two arms. A label can contain a colon itself."""
    parts = text.split(":")
    for cut in range(1, len(parts)):
        baseline, candidate = (
            by_label.get(":".join(half).strip()) for half in (parts[:cut], parts[cut:])
        )
        if baseline and candidate and baseline != candidate:
            return baseline, candidate
    raise UsageError(
        f"{text!r} does not name two different arms: write BASELINE:CANDIDATE, of "
        f"{', '.join(sorted(set(by_label.values())))}"
    )


def _write_declaration(lake: Lake, experiment: str, arms: Sequence[ImportedArm], plan: Row) -> int:
    ids = list(dict.fromkeys(i for arm in arms for i in arm.instance_ids))
    declaration = {
        "name": experiment,
        "arms": [arm.name for arm in arms],
        "of_arms": [
            {column: getattr(arm, column) for column in _OF_ARM}
            | {"instances": canonical_digest(sorted(arm.instance_ids)), "repeats": arm.repeats}
            for arm in arms
        ],
        "comparisons": plan,
        "instances": sorted(ids),
    }
    digest = canonical_digest(declaration)
    latest = _read_latest(lake, experiment)
    if latest and latest[0]["declaration_digest"] == digest:
        return len(ids)
    now, text = datetime.now(UTC), json.dumps(declaration)
    for order, arm in enumerate(arms):
        row = {
            **{column: getattr(arm, column) for column in _OF_ARM},
            "instance_ids": ids,
            "own_instance_ids": arm.instance_ids,
            "declared_at": now,
            "declaration_digest": digest,
            "declaration": text,
            "arm_order": order,
            "simulated": False,
            "repeats": arm.repeats,
            **plan,
            "willingness_to_pay": None,
            "derived_from": None,
        }
        unit = f"{now:%Y%m%dT%H%M%S%f}-{digest[:16]}"
        lake.write("experiments", experiment, arm.name, unit, [row])
    return len(ids)


def check_free(lake: Lake, experiment: str) -> None:
    """Check that no experiment run in this lake has the name.

    Raises:
        UsageError: the name is taken.
    """
    _read_latest(lake, experiment)


def load_arms(lake: Lake, experiment: str) -> list[ImportedArm]:
    """Return the arms in the latest declaration of a name, in order; empty if there is none.

    Raises:
        UsageError: the name belongs to an experiment that was run in this lake.
    """
    arms = []
    for row in _read_latest(lake, experiment):
        ids = row.get("own_instance_ids")
        arms.append(
            ImportedArm(
                name=json.loads(row["declaration"])["arms"][row["arm_order"]],
                instance_ids=tuple(row["instance_ids"] if ids is None else ids),
                repeats=row["repeats"],
                **{column: row.get(column) for column in _OF_ARM},  # type: ignore[arg-type]
            )
        )
    return arms


def _read_latest(lake: Lake, experiment: str) -> list[Row]:
    """Return the rows of the latest complete declaration, one per arm.

    A killed import may have left a declaration without some of its arms.
    """
    for unit in sorted(set(lake.units("experiments", "*", experiment)), reverse=True):
        rows = lake.find("experiments", unit, experiment)
        rows.sort(key=lambda row: int(row["arm_order"]))
        declaration = json.loads(rows[0]["declaration"])
        if "instances" not in declaration:
            raise UsageError(
                f"{experiment!r} is an experiment that was run in this lake: choose another --name"
            )
        if len(rows) == len(declaration["arms"]):
            return rows
    return []


def _withdraw(lake: Lake, experiment: str, arm: str, units: frozenset[str]) -> None:
    """Remove an arm's rows, except these units and local verdicts on their patches.

    Attempts are removed last: a listed attempt is complete.
    """
    for table in sorted(TABLES.keys() - {"experiments"}, key=lambda name: name == "attempts"):
        for unit in lake.units(table, "*", experiment, arm):
            is_local_verdict = not unit.endswith(IMPORTED) and unit.partition("-")[0] in units
            if unit not in units and not is_local_verdict:
                lake.remove(table, experiment, arm, unit)


def prediction_id(experiment: str, arm: str, instance_id: str, patch: str | None) -> str:
    """Return the attempt id for a patch."""
    sha256 = None if patch is None else patch_sha256(patch)
    return canonical_digest([experiment, arm, instance_id, sha256])[:32]
