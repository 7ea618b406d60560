"""Import published results as a table: one row per attempt, in any of `sheets.ENDINGS`.

The table is handled by column: a million rows take seconds.
"""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from eval.digests import canonical_digest
from flows.errors import UsageError
from flows.imports import common, lake_rows, results, sheets
from flows.imports.common import ImportedArm, Summary
from flows.imports.comparisons import Comparisons
from flows.imports.results import Columns, Results
from flows.imports.values import UNGRADED, Ending
from flows.storage.lake import Lake, Row

AMOUNTS = {
    "cost_usd": "cost",
    "model_calls": "calls",
    "duration_s": "duration",
    "difficulty": "difficulty",
    **{name: name for name in results.KINDS if name.endswith("_tokens")},
}
"""Columns of `attempts` by the kind that they are filled from."""


def import_table(
    path: Path,
    experiment: str,
    columns: Columns,
    lake_path: str | None,
    comparisons: Comparisons | None = None,
) -> list[Summary]:
    """Import a table of results. Return the arms in the order of their first rows.

    The instances are those of all arms. An instance without a row for an arm stays in the arm's
    denominator as never run, and so does a row that says nothing. A row without a verdict that has
    a cost or another amount is not graded. No dataset is needed: the file takes its place.
    Importing a table from the same path replaces the earlier one, including its arms and instances.

    Raises:
        UsageError: the file, a column, a row or a comparison cannot be used; nothing was written.
    """
    content = _content(path)
    found = results.read(path, sheets.parse(path, content), columns)
    if not found.labels:
        raise UsageError(f"{path} has no rows")
    by_label = _by_label(path, found)
    digest = hashlib.sha256(content).hexdigest()
    source = canonical_digest(["table", str(path.absolute())])[:16]
    common.check_name(experiment)
    lake = Lake.open(lake_path)
    with common.alone(lake, experiment):
        declared = common.declared(lake, experiment)
        others = [arm for arm in declared if arm.imported_from != source]
        names = common.arm_names(by_label, others)
        models = {
            label: _one_of(found.other.get("model"), own) or "unknown"
            for label, own in by_label.items()
        }
        filed = {
            label: _Filed(experiment, names[label], models[label], path.name, found, own)
            for label, own in by_label.items()
        }
        planned = common.declare(
            lake,
            experiment,
            [
                ImportedArm(
                    names[label],
                    label=label,
                    agent=_one_of(found.other.get("harness"), own) or "imported",
                    model=models[label],
                    environment="imported",
                    dataset=f"{path.name} (sha256 {digest[:12]})",
                    dataset_digest=digest,
                    instance_ids=tuple(dict.fromkeys(found.instances[row] for row in own)),
                    imported_from=source,
                    units=frozenset({filed[label].unit}),
                    repeats=1 + max(found.repeats[row] for row in own),
                )
                for label, own in by_label.items()
            ],
            source=source,
            comparisons=comparisons,
        )
        _tell_of_blanks(path, found.blanks)
        _tell_of_endings(path, found.endings)
        _tell_of_arms(path, declared, source, names)
        return [filed[label].write(lake, planned) for label in by_label]


def _tell_of_endings(path: Path, endings: Sequence[Ending | None]) -> None:
    for ended, without, state in (
        (None, "verdict, outcome or amount", "never run"),
        (UNGRADED, "verdict", "not graded"),
    ):
        if number := sum(each == ended for each in endings):
            rows = "1 row has" if number == 1 else f"{number} rows have"
            common.tell(f"{path}: {rows} no {without}, and count as {state}.")


def _tell_of_arms(
    path: Path, before: Sequence[ImportedArm], source: str, names: dict[str, str]
) -> None:
    now = set(names.values())
    gone = [a.name for a in before if a.imported_from == source and a.name not in now]
    if gone:
        common.tell(f"No longer in {path.name}, and so no longer an arm: {', '.join(gone)}.")
    corrected = {arm.imported_from for arm in before if arm.name in now} - {source, None}
    stay = [a.name for a in before if a.imported_from in corrected and a.name not in now]
    if stay:
        common.tell(
            f"{', '.join(stay)} came with another file that {path.name} has arms of, and stays; "
            "import from the path of that file to replace all of its arms."
        )


class _Filed:
    """The rows of one arm as files of the lake."""

    def __init__(
        self,
        experiment: str,
        arm: str,
        model: str,
        detail: str,
        found: Results,
        rows: Sequence[int],
    ) -> None:
        self._experiment, self._arm = experiment, arm
        self._model, self._detail = model, detail
        self._label = found.labels[rows[0]]
        self._repeats = 1 + max(found.repeats[row] for row in rows)
        tried = [row for row in rows if found.endings[row] is not None]
        self._columns = _columns(experiment, arm, found, tried)
        self._endings = [ended for row in tried if (ended := found.endings[row])]
        self.unit = f"table-{self._digest()}"

    def write(self, lake: Lake, planned: int) -> Summary:
        """Write verdicts and attempts. Return the summary of the arm."""
        where = (self._experiment, self._arm, self.unit)
        if self._endings:
            lake.write_columns("evaluations", *where, *self._evaluations())
            lake.write_columns("attempts", *where, *self._attempts())
        amounts = map(lake_rows.metered, self._columns["cost_usd"], self._columns["model_calls"])
        costs = [cost for cost in amounts if cost is not None]
        return Summary(
            self._arm,
            planned * self._repeats,
            found=len(self._endings),
            resolved=sum(ended.graded == "resolved" for ended in self._endings),
            cost_usd=sum(costs) if costs else None,
            unpriced=len(self._endings) - len(costs),
            label=self._label,
        )

    def _digest(self) -> str:
        """Return the digest that names the arm's files: different results get different files."""
        digest = hashlib.sha256()
        endings = {ended: repr(ended) for ended in set(self._endings)}
        texts = [
            *map(repr, ([self._model], *self._columns.values())),
            f"[{', '.join(map(endings.__getitem__, self._endings))}]",
        ]
        for text in texts:
            digest.update(text.encode("utf-8", "surrogateescape"))
        return digest.hexdigest()[:16]

    def _attempts(self) -> tuple[Row, Mapping[str, Sequence[Any]]]:
        """Return the values that all attempts share, and the columns of the others."""
        shared = lake_rows.bare_attempt_row({}, "", model=self._model, detail=self._detail)
        outcomes = [ended.attempt for ended in self._endings]
        return shared, {**self._columns, "outcome": outcomes}

    def _evaluations(self) -> tuple[Row, Mapping[str, Sequence[Any]]]:
        """Return the values that all verdicts share, and the columns of the others."""
        shared = lake_rows.evaluation_row({}, "unresolved", harness_version="unknown")
        graded = [n for n, ended in enumerate(self._endings) if ended.graded is not None]
        verdicts = [self._endings[n].graded for n in graded]
        return shared, {
            **{
                name: [self._columns[name][n] for n in graded]
                for name in ("attempt_id", "instance_id", "repeat")
            },
            "outcome": verdicts,
            "resolved": [verdict == "resolved" for verdict in verdicts],
        }


def _columns(
    experiment: str, arm: str, found: Results, rows: Sequence[int]
) -> dict[str, list[Any]]:
    """Return the columns of `attempts` that a table fills, for some of its rows."""
    instances = [found.instances[row] for row in rows]
    repeats = [found.repeats[row] for row in rows]
    other = found.other
    repos = other.get("repo")
    return {
        "attempt_id": _attempt_ids(experiment, arm, instances, repeats),
        "instance_id": instances,
        "repeat": repeats,
        "repo": [
            (repos[row] if repos else None) or lake_rows.repository(found.instances[row])
            for row in rows
        ],
        **{
            column: [other[kind][row] for row in rows] if kind in other else [None] * len(rows)
            for column, kind in AMOUNTS.items()
        },
    }


def _attempt_ids(
    experiment: str, arm: str, instances: Sequence[str], repeats: Sequence[int]
) -> list[str]:
    prefix = f"{experiment}\0{arm}\0table\0"
    return [
        hashlib.sha256(f"{prefix}{instance}\0{number}".encode()).hexdigest()[:32]
        for instance, number in zip(instances, repeats, strict=True)
    ]


def _one_of(column: list[str | None] | None, rows: Sequence[int]) -> str:
    """Return the value of these rows, or all of them in order; empty if there is none."""
    found = {value for row in rows if column and (value := column[row])}
    return ", ".join(sorted(found))


def _by_label(path: Path, found: Results) -> dict[str, list[int]]:
    """Return the rows of each arm, in order of their first rows."""
    arms: dict[str, list[int]] = {}
    for row, label in enumerate(found.labels):
        arms.setdefault(label, []).append(row)
    cells = zip(found.labels, found.instances, found.repeats, strict=True)
    if len(set(cells)) == len(found.labels):
        return arms
    seen = set()
    for label, instance, number in zip(found.labels, found.instances, found.repeats, strict=True):
        if (label, instance, number) in seen:
            raise UsageError(
                f"{path}: {label!r} has more than one row for {instance}; keep one per arm and "
                "instance, or number them in a column `repeat`"
            )
        seen.add((label, instance, number))
    raise AssertionError("no row is there twice")


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None


def _tell_of_blanks(path: Path, blanks: Mapping[str, int]) -> None:
    told = [
        f"{number} {what}{'' if number == 1 else 's'}"
        for kind, what in (("instance", "instance id"), ("arm", "arm name"))
        if (number := blanks.get(kind, 0))
    ]
    if told:
        common.tell(f"{path}: blanks were taken off the ends of {' and '.join(told)}.")
