"""Tables of published results: one row per attempt.

DuckDB parses the cells: a million rows take seconds.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from eval.digests import canonical_digest
from flows.display.errors import UsageError
from flows.display.terminal import warn
from flows.formats import imported_arms, lake_rows, table_columns, table_files, table_notes
from flows.formats.attempts import read_content
from flows.formats.imported_arms import Comparisons, ImportedArm, Summary
from flows.formats.table_columns import FILLED, KINDS, NAMES, REQUIRED
from flows.formats.table_files import Sheet, open_sheet
from flows.storage.lake import Lake

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

AMOUNTS = {
    "cost_usd": "cost",
    "model_calls": "calls",
    "duration_s": "duration",
    **{kind: kind for kind in KINDS if kind.endswith("_tokens")},
}
"""Columns of `attempts` by the kind that they are filled from. A number above 0 means that an
attempt was made."""

_ENDED = f"""
create temp table results as
select * exclude (repeat),
    repeat - least(1, min(repeat) over ()) as repeat,  -- a table may count them from 1
    case
        when outcome in {table_columns.VERDICTS} or outcome = 'no_patch' then 'submitted'
        when outcome in {table_columns.UNGRADED} then outcome
        when resolved is not null then coalesce(outcome, 'unknown')
        when outcome in {table_columns.WITHOUT_SUBMISSION} then outcome
        when outcome is not null or greatest(0, {", ".join(AMOUNTS.values())}) > 0 then 'unknown'
    end as attempt,  -- null for a cell that was never run
    case
        when outcome in {table_columns.VERDICTS} then outcome
        when outcome = 'no_patch' or outcome in {table_columns.UNGRADED} then null
        when resolved then 'resolved'
        when not resolved then 'unresolved'
    end as graded
from parsed
"""  # noqa: S608

_CONTRADICTION = f"""
select row, resolved, outcome from parsed
where resolved and (outcome in {table_columns.UNGRADED} or outcome = 'no_patch')
    or outcome in {table_columns.VERDICTS} and resolved <> (outcome = 'resolved')
order by row limit 1
"""  # noqa: S608

_TWICE = """
select arm, instance from results group by arm, instance, repeat having count(*) > 1
order by min(row) limit 1
"""

_ARMS = """
select arm, list(distinct instance), 1 + max(repeat),
    string_agg(distinct model, ', ' order by model),
    string_agg(distinct harness, ', ' order by harness)
from results group by arm order by min(row)
"""

_ATTEMPTS = f"""
select
    left(sha256(concat_ws(chr(0), $experiment, $name, 'table', instance, repeat)), 32)
        as attempt_id,
    instance as instance_id, repeat, repo, difficulty, attempt as outcome, graded,
    {", ".join(f"{kind} as {column}" for column, kind in AMOUNTS.items())}
from results where arm = $arm and attempt is not null order by row
"""  # noqa: S608


def import_table(
    path: Path,
    experiment: str,
    columns: Mapping[str, str],
    lake_path: str | None,
    comparisons: Comparisons | None = None,
) -> list[Summary]:
    """Import a table of results. Return the arms in the order of their first rows.

    `columns` has names of columns by kind; they are case-insensitive. All arms share their
    instances. An instance without a row for an arm stays in the arm's denominator as never run, and
    so does a row that says nothing. A row without a verdict that has a cost or another amount is
    not graded. No dataset is needed: the file takes its place. Importing a table from the same path
    replaces the earlier one, including its arms and instances.

    Raises:
        UsageError: the file, a column, a row or a comparison cannot be used; nothing was written.
    """
    content = read_content(path)
    digest = hashlib.sha256(content).hexdigest()
    source = canonical_digest(["table", str(path.absolute())])[:16]
    with open_sheet(path, table_files.flatten(path, content)) as sheet:
        notes = create_results(path, sheet, columns)
        connection = sheet.connection
        rows = connection.execute(_ARMS).fetchall()
        imported_arms.check_name(experiment)
        lake = Lake.open(lake_path)
        with imported_arms.alone(lake, experiment):
            before = imported_arms.load_arms(lake, experiment)
            others = [arm for arm in before if arm.imported_from != source]
            names = imported_arms.arm_names([label for label, *_ in rows], others)
            filed = {
                label: _FiledArm.read(connection, experiment, label, names[label], repeats, model)
                for label, _, repeats, model, _ in rows
            }
            arms = [
                ImportedArm(
                    names[label],
                    label=label,
                    agent=harness or "imported",
                    model=model or "unknown",
                    environment="imported",
                    dataset=f"{path.name} (sha256 {digest[:12]})",
                    dataset_digest=digest,
                    instance_ids=tuple(sorted(ids)),
                    imported_from=source,
                    units=frozenset({filed[label].unit}),
                    repeats=repeats,
                )
                for label, ids, repeats, model, harness in rows
            ]
            planned = imported_arms.declare(lake, experiment, arms, source, comparisons)
            for note in notes:
                warn(f"{path}: {note}")
            _warn_of_arms(path, before, source, names)
            return [arm.write(lake, experiment, path.name, planned) for arm in filed.values()]


class _FiledArm(NamedTuple):
    """One arm as files of the lake."""

    label: str
    name: str
    model: str
    repeats: int
    unit: str
    columns: Mapping[str, list[Any]]
    """The columns of `attempts` and the verdict of each attempt."""

    @classmethod
    def read(
        cls,
        connection: "DuckDBPyConnection",
        experiment: str,
        label: str,
        name: str,
        repeats: int,
        model: str | None,
    ) -> "_FiledArm":
        cursor = connection.execute(
            _ATTEMPTS, {"experiment": experiment, "name": name, "arm": label}
        )
        header = [column for column, *_ in cursor.description]
        rows = cursor.fetchall()
        columns = dict(zip(header, map(list, zip(*rows, strict=True)), strict=False))
        # Different results get different files.
        digest = hashlib.sha256(repr((model, rows)).encode("utf-8", "surrogateescape")).hexdigest()
        unit = f"table-{digest[:16]}"
        return cls(label, name, model or "unknown", repeats, unit, columns)

    def write(self, lake: Lake, experiment: str, detail: str, planned: int) -> Summary:
        """Write verdicts and attempts. Return the summary of the arm."""
        attempts = {name: column for name, column in self.columns.items() if name != "graded"}
        verdicts = self.columns.get("graded", [])
        costs = []
        if attempts:
            ids = attempts["instance_id"]
            attempts["repo"] = [
                repo or lake_rows.repository(id_)
                for repo, id_ in zip(attempts["repo"], ids, strict=True)
            ]
            graded = [n for n, verdict in enumerate(verdicts) if verdict]
            cell = ("attempt_id", "instance_id", "repeat")
            evaluations = {name: [attempts[name][n] for n in graded] for name in cell}
            evaluations["outcome"] = [verdicts[n] for n in graded]
            evaluations["resolved"] = [verdicts[n] == "resolved" for n in graded]
            where = (experiment, self.name, self.unit)
            shared = lake_rows.evaluation_row({}, "unresolved", harness_version="unknown")
            lake.write_columns("evaluations", *where, shared, evaluations)
            shared = lake_rows.bare_attempt_row({}, "", model=self.model, detail=detail)
            lake.write_columns("attempts", *where, shared, attempts)
            amounts = map(lake_rows.get_metered_usd, attempts["cost_usd"], attempts["model_calls"])
            costs = [cost for cost in amounts if cost is not None]
        return Summary(
            self.name,
            planned * self.repeats,
            found=len(verdicts),
            resolved=verdicts.count("resolved"),
            cost_usd=sum(costs) if costs else None,
            unpriced=len(verdicts) - len(costs),
            label=self.label,
        )


def _warn_of_arms(
    path: Path, before: Sequence[ImportedArm], source: str, names: dict[str, str]
) -> None:
    now = set(names.values())
    if gone := [a.name for a in before if a.imported_from == source and a.name not in now]:
        warn(f"No longer in {path.name}, and so no longer an arm: {', '.join(gone)}.")
    corrected = {arm.imported_from for arm in before if arm.name in now} - {source, None}
    if stay := [a.name for a in before if a.imported_from in corrected and a.name not in now]:
        warn(
            f"{', '.join(stay)} came with another file that {path.name} has arms of, and stays; "
            "import from the path of that file to replace all of its arms."
        )


def create_results(
    path: Path, sheet: Sheet, columns: Mapping[str, str], *, needs_arm: bool = True
) -> list[str]:
    """Create the table `results`. Return notes for the operator.

    Without `needs_arm`, the arm is "unnamed" in a table that names none.

    Raises:
        UsageError: a column or a row cannot be used.
    """
    connection = sheet.connection
    connection.execute(table_columns.MACROS)
    positions = _find_columns(path, sheet, columns, needs_arm)
    texts = {kind: _write_text_sql(sheet, kind, n) for kind, n in positions.items()}
    values = {kind: f"{KINDS[kind].macro}({texts[kind]})" for kind in texts}
    both = f"concat_ws(' · ', {values.get('harness', 'null')}, {values.get('model', 'null')})"
    defaults = {"repeat": "0", "arm": f"coalesce(nullif({both}, ''), 'unnamed')"}
    for kind in KINDS.keys() - values.keys():
        is_number = kind in AMOUNTS.values()
        type_ = "boolean" if kind == "resolved" else "double" if is_number else "varchar"
        values[kind] = defaults.get(kind, f"null::{type_}")
    for kind, position in positions.items():
        _check_column(path, sheet, kind, position)
        if kind not in NAMES and kind not in columns:
            _check_other_columns(path, sheet, kind, position)
    listed = ", ".join(f"{value} as {kind}" for kind, value in values.items())
    connection.execute(f"create temp table parsed as select rowid + 1 as row, {listed} from rows")  # noqa: S608
    if bad := connection.execute(_CONTRADICTION).fetchone():
        row, resolved, outcome = bad
        raise UsageError(
            f"{path}, row {row}: resolved is {str(resolved).lower()}, and outcome {outcome}; "
            "correct one of them"
        )
    connection.execute(_ENDED)
    if twice := connection.execute(_TWICE).fetchone():
        raise UsageError(
            f"{path}: {twice[0]!r} has more than one row for {twice[1]}; keep one per arm and "
            "instance, or number them in a column `repeat`"
        )
    return list(table_notes.describe_traps(sheet, texts))


def _find_columns(
    path: Path, sheet: Sheet, columns: Mapping[str, str], needs_arm: bool
) -> dict[str, int]:
    """Return the position of each kind of column that the table has.

    A table with a model and a harness, and no name for the arm, has an arm for each of their
    combinations. A column of models may name the arms as well.
    """
    positions = {
        kind: _find_column(path, sheet, columns.get(kind), kind)
        for kind in KINDS
        if kind != "arm" and (kind in columns or kind in REQUIRED or _find_usual(sheet, kind))
    }
    has_name = "arm" in columns or sheet.find(KINDS["arm"].usual[0])
    can_name = needs_arm or _find_usual(sheet, "arm")
    if has_name or (can_name and not {"model", "harness"} <= positions.keys()):
        positions["arm"] = _find_column(path, sheet, columns.get("arm"), "arm")
        if positions.get("harness") == positions["arm"]:
            del positions["harness"]
    return positions


def _find_column(path: Path, sheet: Sheet, wanted: str | None, kind: str) -> int:
    """Return the position of the column of this kind."""
    positions = sheet.find(wanted) if wanted else _find_usual(sheet, kind)
    if len(positions) == 1:
        return positions[0]
    if positions:
        same = ", ".join(sheet.names[position] for position in positions)
        raise UsageError(f"{path} has several columns of one name ({same}); rename all but one")
    hint = "; put arms that have a column each into rows" if kind == "resolved" else ""
    missing = f"no column {wanted!r}" if wanted else f"no column that says {KINDS[kind].meaning}"
    raise UsageError(
        f"{path} has {missing}; it has {', '.join(sheet.names)}; "
        f"call one {KINDS[kind].usual[0]}, or import it with --column {kind}=NAME{hint}"
    )


def _find_usual(sheet: Sheet, kind: str) -> list[int]:
    """Return the columns with the first usual name of a kind that exists."""
    return next(filter(None, map(sheet.find, KINDS[kind].usual)), [])


def _write_text_sql(sheet: Sheet, kind: str, position: int) -> str:
    return sheet.write_sql(position, is_name="name" in KINDS[kind].macro)


def _find_bad(sheet: Sheet, kind: str, position: int) -> tuple[int, str | None] | None:
    """Return the row and the text of the first cell that a kind cannot use."""
    text = _write_text_sql(sheet, kind, position)
    is_stated = "true" if kind in FILLED else f"known({text}) is not null"
    bad: tuple[int, str | None] | None = sheet.connection.execute(
        f"select rowid + 1, {sheet.write_sql(position, is_name=False)} from rows "  # noqa: S608
        f"where {KINDS[kind].macro}({text}) is null and {is_stated} order by rowid limit 1"
    ).fetchone()
    return bad


def _check_column(path: Path, sheet: Sheet, kind: str, position: int) -> None:
    if bad := _find_bad(sheet, kind, position):
        row, text = bad
        value = repr(text)
        if re.fullmatch(r"-?[0-9.]+(e[0-9]+)?|inf", text or ""):
            value = value.strip("'")
        value = value if len(value) <= 100 else f"{value:.97}..."
        must = KINDS[kind].must.format(value)
        raise UsageError(f"{path}, row {row}: {sheet.names[position]} {must}")


def _check_other_columns(path: Path, sheet: Sheet, kind: str, position: int) -> None:
    """Check that the other columns with a usual name of a kind do not contradict the found one."""
    usual, macro = {name.casefold() for name in KINDS[kind].usual}, KINDS[kind].macro
    for other, name in enumerate(sheet.names):
        if other == position or name.casefold() not in usual or _find_bad(sheet, kind, other):
            continue
        first, second = (f"{macro}({_write_text_sql(sheet, kind, n)})" for n in (position, other))
        conflict = sheet.connection.execute(
            f"select rowid + 1, {first}, {second} from rows "  # noqa: S608
            f"where {first} <> {second} order by 1 limit 1"
        ).fetchone()
        if conflict:
            raise UsageError(
                f"{path}, row {conflict[0]}: {sheet.names[position]} and {name} contradict each "
                f"other ({conflict[1]} and {conflict[2]}); remove or rename one of the two columns"
            )
