"""Several experiments as one, over the instances that all of them plan.

The combined experiment is a separate lake in a temporary folder. Arm `mini` of experiment `A`
is called `mini@A`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reports.columns import TABLES
from reports.errors import ReportError
from reports.format import count, listing, plural
from reports.lake import open_lake, unit_file
from reports.relations import open_marts, read_rows
from reports.rendering.sections import Note

if TYPE_CHECKING:
    from upath import UPath

Row = dict[str, Any]

_COPIED = tuple(TABLES.keys() - {"experiments", "decisions", "steps"})
"""Tables whose rows are copied. The steps stay where they are, and a decision is one of its
experiment, whose instances without an attempt are left out."""


def get_combined_name(experiments: Sequence[str]) -> str:
    """Return the name of the combined experiment, which no declared one can have."""
    return "+".join(experiments)


def combine(lake: Path | UPath, experiments: Sequence[str], folder: Path) -> Note:
    """Write the combined experiment into a folder. Return a note that names the compared parts.

    Raise ReportError for an experiment that is unknown or given twice, for datasets that differ,
    and without a common instance.
    """
    if len(set(experiments)) < len(experiments):
        raise ReportError("an experiment cannot be compared with itself: name each once")
    declared = {name: _load_declarations(lake, name) for name in experiments}
    planned = {name: rows[0]["instance_ids"] for name, rows in declared.items()}
    shared = set.intersection(*map(set, planned.values()))
    common = [instance for instance in planned[experiments[0]] if instance in shared]
    _require_same(declared, common)
    arms = list(dict.fromkeys(row["arm"] for rows in declared.values() for row in rows))
    rows = [
        {**row, "experiment_of": name}
        for arm in arms
        for name, declarations in declared.items()
        for row in declarations
        if row["arm"] == arm
    ]
    # The whole is one declaration, which exists since the latest of its parts.
    declared_at = max(row["declared_at_utc"] for row in rows)
    for order, row in enumerate(rows):
        row["declared_at_utc"] = declared_at
        _write(lake, folder, get_combined_name(experiments), row, order, common)
    return _note(declared, planned, common)


def _load_declarations(lake: Path | UPath, experiment: str) -> list[Row]:
    connection = open_marts(lake, experiment, ("planned_cells",))
    try:
        rows = read_rows(connection, "from staging.experiments order by position, arm")
    finally:
        connection.close()
    if not rows:
        raise ReportError(f"experiment {experiment!r} has no declaration in the lake: run it again")
    return rows


def _require_same(declared: Mapping[str, Sequence[Row]], common: Sequence[str]) -> None:
    """Check that the experiments can be compared. An import does not know its dataset."""
    if not common:
        raise ReportError(f"{listing([*declared])} plan no common instance: nothing to compare")
    ours = {name: rows[0] for name, rows in declared.items() if not _is_import(rows)}
    if len({row["dataset"] for row in ours.values()}) > 1:
        datasets = "; ".join(f"{name}: {row['dataset']}" for name, row in ours.items())
        raise ReportError(
            f"the experiments have different datasets ({datasets}): compare one dataset"
        )
    revisions: dict[frozenset[str], dict[str, str]] = defaultdict(dict)
    for name, row in ours.items():
        revisions[frozenset(row["instance_ids"])][row["dataset_digest"]] = name
    for names in revisions.values():
        if len(names) > 1:
            raise ReportError(
                f"{listing([*names.values()])} have the same instances with other contents: "
                "they are of different revisions of the dataset"
            )


def _is_import(rows: Sequence[Row]) -> bool:
    return bool(rows[0]["environment"] == "imported")


def _note(
    declared: Mapping[str, Sequence[Row]],
    planned: Mapping[str, Sequence[str]],
    common: Sequence[str],
) -> Note:
    datasets = list(dict.fromkeys(rows[0]["dataset"] for rows in declared.values()))
    digests = {rows[0]["dataset_digest"] for rows in declared.values()}
    is_same = len(digests) == 1
    if is_same:
        revision = f"of one revision (digest {digests.pop()[:12]})"
    elif any(map(_is_import, declared.values())):
        revision = "whose revision is not known, because an import does not name it"
    else:
        revision = "whose revisions cannot be compared, because the selections differ"
    numbers = {name: len(ids) - len(common) for name, ids in planned.items()}
    left_out = ", ".join(f"{name} {count(number)}" for name, number in numbers.items() if number)
    return Note(
        "note" if is_same else "warning",
        f"Compares {listing([*declared])} on the {plural(len(common), 'instance')} that all of "
        f"them plan, of {listing(datasets)}, {revision}. "
        + (f"Instances left out: {left_out}." if left_out else "No instance is left out."),
    )


def _write(
    lake: Path | UPath,
    folder: Path,
    name: str,
    declared: Row,
    order: int,
    common: list[str],
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from duckdb import ColumnExpression, ConstantExpression

    names = ("arm", "experiment_of", "derived_from")
    label, experiment, base = (declared[name] for name in names)
    arm = f"{label}@{experiment}"
    row = {
        **{column: declared.get(column) for column in TABLES["experiments"].schema.names},
        "declared_at": declared["declared_at_utc"],
        "declaration": "{}",
        "declaration_digest": name,
        "arm_order": order,
        "instance_ids": common,
        "primary_baseline": None,
        "primary_candidate": None,
        "primary_margin": None,
        "family": [],
        "derived_from": f"{base}@{experiment}" if base else None,
    }
    path = unit_file(folder, "experiments", name, arm, "combined")
    assert isinstance(path, Path)
    path.parent.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist([row], schema=TABLES["experiments"].schema), path)
    connection = open_lake(lake, experiment)
    try:
        connection.register("common", pa.table({"instance_id": common}))
        for table in _COPIED:
            target = unit_file(folder, table, name, arm, "combined")
            assert isinstance(target, Path)
            target.parent.mkdir(parents=True)
            connection.table(f"main.{table}").filter(
                ColumnExpression("arm") == ConstantExpression(label)
            ).join(connection.table("common"), "instance_id", "semi").project(
                ", ".join(TABLES[table].schema.names)
            ).write_parquet(str(target))
    finally:
        connection.close()
