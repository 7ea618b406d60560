"""Cases: given rows lead to expected rows of the real relations."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from duckdb import DuckDBPyConnection

from reports.lake import open_lake
from reports.relations import AUDITS as AUDIT_FILES
from reports.relations import MARTS, SQL, Making
from tests.reports.lake_fixture import CASES, ORDINARY, LakeBuilder

FILES = sorted([*CASES.glob("*/*.yaml"), *SQL.parent.glob("questions/*/*.yaml")])
AUDITS = tuple(path.stem for path in AUDIT_FILES)

Row = dict[str, Any]


def read(path: Path) -> Row:
    """Read a case from its file."""
    case: Row = yaml.safe_load(path.read_text(encoding="utf-8"))
    return case


def fill(lake: LakeBuilder, given: dict[str, list[Row]]) -> None:
    """Write the given rows, each to its own file."""
    for table, rows in given.items():
        for row in rows:
            columns = {**ORDINARY[table], **row}
            lake.write(table, columns.pop("arm"), [columns])


def rows_of(connection: DuckDBPyConnection, relation: str) -> list[Row]:
    """Return all rows of a mart or of an audit."""
    layer, _, name = relation.partition(".")
    query = (
        (SQL / "audits" / f"{name}.sql").read_text() if layer == "audits" else f"from {relation}"
    )
    cursor = connection.execute(query)
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def comparable(rows: list[Row]) -> list[str]:
    """Return the rows as sorted texts, with rounded floats and with 1 equal to 1.0."""
    return sorted(
        str({name: round(float(v), 9) if type(v) in (int, float) else v for name, v in row.items()})
        for row in rows
    )


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_given_rows_make_the_expected_ones(lake: LakeBuilder, path: Path) -> None:
    """Every relation that a case names has the expected rows. All other audits find nothing."""
    case = read(path)
    fill(lake, case["given"])
    expected = {f"audits.{name}": [] for name in AUDITS} | case["expect"]
    marts = re.findall(r"marts\.(\w+)", " ".join(expected))
    making = Making(open_lake(lake.root, "trial"), marts, AUDIT_FILES)
    connection = making.connection
    try:
        making.wait()
        for relation, rows in expected.items():
            found = rows_of(connection, relation)
            named = list(rows[0]) if rows else []
            assert all(list(row) == named for row in rows), (
                f"{relation}: rows with different columns"
            )
            shown = [{name: row[name] for name in named} for row in found]
            assert comparable(shown) == comparable(rows), relation
    finally:
        making.close()


def test_every_mart_and_every_audit_has_a_case() -> None:
    """Every mart and every audit has at least one case with expected rows."""
    named = {relation for path in FILES for relation, rows in read(path)["expect"].items() if rows}
    assert {f"marts.{name}" for name in MARTS} <= named
    assert {f"audits.{name}" for name in AUDITS} <= named
