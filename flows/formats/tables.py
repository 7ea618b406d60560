"""Tables of published results: one row per attempt.

The table is handled by column: a million rows take seconds.
"""

import functools
import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval.digests import canonical_digest
from flows.display.errors import UsageError
from flows.formats import cells, imported_arms, lake_rows
from flows.formats.cells import AMOUNTS, KINDS, NAMES, REQUIRED, UNGRADED, Ending
from flows.formats.imported_arms import Comparisons, ImportedArm, Summary
from flows.formats.sheets import Sheet, open_sheet
from flows.storage.lake import Lake, Row

_COLUMNS = {
    "cost_usd": "cost",
    "model_calls": "calls",
    "duration_s": "duration",
    "difficulty": "difficulty",
    **{kind: kind for kind in KINDS if kind.endswith("_tokens")},
}
"""Columns of `attempts` by the kind that they are filled from."""


@dataclass(frozen=True)
class Results:
    """The rows of a table, by column. All lists have the same length."""

    labels: list[str]
    """Name of the arm in the table."""
    instances: list[str]
    repeats: list[int]
    endings: list[Ending | None]
    """None if there is neither a verdict nor an outcome nor an amount above 0: never run."""
    other: Mapping[str, list[Any]]
    """The optional columns by kind."""
    blanks: Mapping[str, int]
    """Number of names with surrounding blanks, by what they name."""


def _results(path: Path, sheet: Sheet, columns: Mapping[str, str]) -> Results:
    """Parse the columns of a table."""
    found: dict[str, list[Any]] = {}
    blanks: dict[str, int] = {}
    for kind, position in _positions_by_kind(path, sheet, columns).items():
        given = sheet.column(position)
        found[kind] = _parsed(path, sheet.names[position], given, KINDS[kind].parse)
        if kind not in NAMES and kind not in columns:
            _check_others(path, sheet, kind, position, found[kind])
        if kind in ("arm", "instance"):
            pairs = zip(given, found[kind], strict=True)
            blanks[kind] = sum(isinstance(cell, str) and cell != name for cell, name in pairs)
    labels = found.pop("arm", None) or [
        " · ".join(filter(None, parts)) or "unnamed"
        for parts in zip(found["harness"], found["model"], strict=True)
    ]
    repeats = found.pop("repeat", [0] * sheet.rows)
    if first := min(1, min(repeats)):  # a table may count them from 1
        repeats = [number - first for number in repeats]
    outcomes = found.pop("outcome", [None] * sheet.rows)
    endings = _find_endings(path, found.pop("resolved"), outcomes)
    amounts = [column for kind, column in found.items() if kind in AMOUNTS]
    for row, ended in enumerate(endings):
        if ended is None and any(column[row] for column in amounts):
            endings[row] = UNGRADED  # it cost something, and so it ran
    return Results(labels, found.pop("instance"), repeats, endings, found, blanks)


def _check_others(path: Path, sheet: Sheet, kind: str, position: int, found: Sequence[Any]) -> None:
    """Check that the other columns with a usual name of a kind do not contradict the found one.

    Raises:
        UsageError: one does.
    """
    usual = {name.casefold() for name in KINDS[kind].usual}
    for other, name in enumerate(sheet.names):
        if other == position or name.casefold() not in usual:
            continue
        try:
            parsed = _parsed(path, name, sheet.column(other), KINDS[kind].parse)
        except UsageError:  # a column of something else
            continue
        for row, pair in enumerate(zip(found, parsed, strict=True), 1):
            if None not in pair and pair[0] != pair[1]:
                raise UsageError(
                    f"{path}, row {row}: {sheet.names[position]} and {name} contradict each other "
                    f"({pair[0]} and {pair[1]}); remove or rename one of the two columns"
                )


def _positions_by_kind(path: Path, sheet: Sheet, columns: Mapping[str, str]) -> dict[str, int]:
    """Return the position of each kind of column that the table has.

    A table with a model and a harness, and no name for the arm, has an arm for each of their
    combinations. A column of models may name the arms as well.
    """
    found = {
        kind: _position(path, sheet, columns.get(kind), kind)
        for kind in KINDS
        if kind != "arm" and (kind in columns or kind in REQUIRED or _find_usual(sheet, kind))
    }
    has_name = "arm" in columns or sheet.find(KINDS["arm"].usual[0])
    if has_name or not {"model", "harness"} <= found.keys():
        found["arm"] = _position(path, sheet, columns.get("arm"), "arm")
        if found.get("harness") == found["arm"]:
            del found["harness"]
    return found


def _position(path: Path, sheet: Sheet, wanted: str | None, kind: str) -> int:
    """Return the position of the column of this kind.

    Raises:
        UsageError: there is no such column, or more than one.
    """
    found = sheet.find(wanted) if wanted else _find_usual(sheet, kind)
    if len(found) == 1:
        return found[0]
    if found:
        same = ", ".join(sheet.names[position] for position in found)
        raise UsageError(f"{path} has several columns of one name ({same}); rename all but one")
    missing = f"no column {wanted!r}" if wanted else f"no column that says {KINDS[kind].meaning}"
    raise UsageError(
        f"{path} has {missing}; it has {', '.join(sheet.names)}; name one with --column {kind}=NAME"
    )


def _find_usual(sheet: Sheet, kind: str) -> list[int]:
    """Return the columns with the first usual name of a kind that exists."""
    return next(filter(None, map(sheet.find, KINDS[kind].usual)), [])


def _parsed(path: Path, name: str, given: Sequence[Any], parse: Callable[[Any], Any]) -> list[Any]:
    """Parse the cells of a column, and each distinct one once."""
    known: dict[type, dict[Any, Any]] = defaultdict(dict)
    parsed = []
    for row, cell in enumerate(given, 1):
        alike = known[cell.__class__]  # 1, 1.0 and True are equal, and no names of each other
        try:
            parsed.append(alike[cell])
            continue
        except (KeyError, TypeError):  # a list cannot be a key, and every parser refuses it
            pass
        try:
            alike[cell] = value = parse(cell)
        except ValueError as error:
            raise UsageError(f"{path}, row {row}: {name} {error}") from None
        parsed.append(value)
    return parsed


def _find_endings(
    path: Path, verdicts: Sequence[bool | None], outcomes: Sequence[str | None]
) -> list[Ending | None]:
    find_ending = functools.cache(cells.find_ending)
    endings = []
    for row, pair in enumerate(zip(verdicts, outcomes, strict=True), 1):
        try:
            endings.append(find_ending(*pair))
        except ValueError as error:
            raise UsageError(f"{path}, row {row}: {error}; correct one of them") from None
    return endings


def import_table(
    path: Path,
    experiment: str,
    columns: Mapping[str, str],
    lake_path: str | None,
    comparisons: Comparisons | None = None,
) -> list[Summary]:
    """Import a table of results. Return the arms in the order of their first rows.

    `columns` has names of columns by kind; they are case-insensitive. The instances are those of
    all arms. An instance without a row for an arm stays in the arm's denominator as never run, and
    so does a row that says nothing. A row without a verdict that has a cost or another amount is
    not graded. No dataset is needed: the file takes its place. Importing a table from the same path
    replaces the earlier one, including its arms and instances.

    Raises:
        UsageError: the file, a column, a row or a comparison cannot be used; nothing was written.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    with open_sheet(path, content) as sheet:
        if not sheet.rows:
            raise UsageError(f"{path} has no rows")
        found = _results(path, sheet, columns)
    by_label = _by_label(path, found)
    digest = hashlib.sha256(content).hexdigest()
    source = canonical_digest(["table", str(path.absolute())])[:16]
    imported_arms.check_name(experiment)
    lake = Lake.open(lake_path)
    with imported_arms.alone(lake, experiment):
        declared = imported_arms.declared(lake, experiment)
        others = [arm for arm in declared if arm.imported_from != source]
        names = imported_arms.arm_names(by_label, others)
        models = {
            label: _one_of(found.other.get("model"), own) or "unknown"
            for label, own in by_label.items()
        }
        filed = {
            label: _Filed(experiment, names[label], models[label], path.name, found, own)
            for label, own in by_label.items()
        }
        planned = imported_arms.declare(
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
            imported_arms.tell(f"{path}: {rows} no {without}, and count as {state}.")


def _tell_of_arms(
    path: Path, before: Sequence[ImportedArm], source: str, names: dict[str, str]
) -> None:
    now = set(names.values())
    if gone := [a.name for a in before if a.imported_from == source and a.name not in now]:
        imported_arms.tell(f"No longer in {path.name}, and so no longer an arm: {', '.join(gone)}.")
    corrected = {arm.imported_from for arm in before if arm.name in now} - {source, None}
    if stay := [a.name for a in before if a.imported_from in corrected and a.name not in now]:
        imported_arms.tell(
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
            for column, kind in _COLUMNS.items()
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
    return ", ".join(sorted({value for row in rows if column and (value := column[row])}))


def _by_label(path: Path, found: Results) -> dict[str, list[int]]:
    """Return the rows of each arm, in order of their first rows."""
    arms: dict[str, list[int]] = {}
    for row, label in enumerate(found.labels):
        arms.setdefault(label, []).append(row)
    rows = Counter(zip(found.labels, found.instances, found.repeats, strict=True))
    if len(rows) < len(found.labels):
        [((label, instance, _), _)] = rows.most_common(1)
        raise UsageError(
            f"{path}: {label!r} has more than one row for {instance}; keep one per arm and "
            "instance, or number them in a column `repeat`"
        )
    return arms


def _tell_of_blanks(path: Path, blanks: Mapping[str, int]) -> None:
    told = [
        f"{number} {what}{'' if number == 1 else 's'}"
        for kind, what in (("instance", "instance id"), ("arm", "arm name"))
        if (number := blanks.get(kind, 0))
    ]
    if told:
        imported_arms.tell(f"{path}: blanks were taken off the ends of {' and '.join(told)}.")
