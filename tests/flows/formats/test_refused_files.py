"""Files that cannot be imported: one line, exit code 2, and nothing written."""

import io
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from flows.cli.app import app

HEADER = "arm,instance_id,resolved,cost_usd,api_calls,repeat,outcome,duration_s,input_tokens"
GOOD = "a,x-1,1,0.5,3,0,submitted,10,100\nb,x-1,0,0.5,3,0,submitted,10,100\n"


def csv(row: str, header: str = HEADER) -> bytes:
    return f"{header}\n{GOOD}{row}\n".encode()


def parquet_of(table: pa.Table) -> bytes:
    content = io.BytesIO()
    pq.write_table(table, content)
    return content.getvalue()


def parquet(**columns: Any) -> bytes:
    return parquet_of(pa.table(columns))


def bytes_as_id() -> dict[str, Any]:
    return {"arm": ["a"], "instance_id": pa.array([b"\xff\xfe"]), "resolved": [True]}


def times_as_id() -> dict[str, Any]:
    return {"arm": ["a"], "instance_id": pa.array([0], pa.timestamp("ns")), "resolved": [True]}


def jsonl(*rows: Any) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def cells(**changes: Any) -> dict[str, Any]:
    return {"arm": "a", "instance_id": "x-1", "resolved": True, **changes}


REFUSED: dict[str, tuple[str, bytes, str]] = {
    "no file ending": ("results", csv(""), "ends in .parquet, .csv, .tsv, .json or .jsonl"),
    "spreadsheet": ("t.xlsx", b"PK\3\4", "ends in .parquet"),
    "empty csv": ("t.csv", b"", "has no rows"),
    "empty json": ("t.json", b"", "has no rows"),
    "empty parquet file": ("t.parquet", b"", "cannot be read"),
    "header alone": ("t.csv", f"{HEADER}\n".encode(), "has no rows"),
    "empty list": ("t.json", b"[]", "has no rows"),
    "parquet without rows": (
        "t.parquet",
        parquet(arm=pa.array([], pa.string()), instance_id=pa.array([], pa.string())),
        "has no rows",
    ),
    "broken parquet": ("t.parquet", b"PAR1 no PAR1", "cannot be read"),
    "parquet cut off": ("t.parquet", parquet(arm=["a"])[:-6], "cannot be read"),
    "parquet named csv": ("t.csv", parquet(arm=["a"]), "it is not UTF-8 text"),
    "utf-16": ("t.csv", HEADER.encode("utf-16"), "it is not UTF-8 text; save it as UTF-8"),
    "latin-1": ("t.csv", "arm,é\n".encode("latin-1"), "it is not UTF-8 text"),
    "json number": ("t.json", b"7", "expected records"),
    "json list of lists": ("t.json", b"[[1, 2]]", "expected records"),
    "json cut off": ("t.json", b'[{"arm": "a"', "give a JSON list of rows"),
    "json trailing comma": ("t.json", b'[{"arm": "a"},]', "give a JSON list of rows"),
    "number of 5,000 digits": (
        "t.json",
        b'[{"task_id": "x", "passed": 1, "arm": ' + b"9" * 5000 + b"}]",
        "row 1: arm must be text, not 9999",
    ),
    "two rows on a line": ("t.jsonl", b'{"arm": "a"}{"arm": "b"}\n', "which instance a row"),
    "deep json": ("t.json", b"[" * 100_000, "cannot be read"),
    "column of arms missing": ("t.csv", b"who,instance_id,resolved\na,x,1\n", "which arm a row"),
    "verdict missing": ("t.csv", b"arm,instance_id,ok\na,x,1\n", "whether an instance was"),
    "names alike but for case": ("t.csv", b"Arm,ARM,task_id,passed\na,a,x,1\n", "several columns"),
    "two columns of a name in parquet": (
        "t.parquet",
        parquet_of(
            pa.Table.from_arrays(
                [pa.array([value]) for value in ("a", "b", "x", True)],
                names=["arm", "arm", "instance_id", "resolved"],
            )
        ),
        "several columns of one name (arm, arm)",
    ),
    "title above the header": (
        "t.csv",
        f"Results,,\n{HEADER}\n".encode(),
        "line 2: Expected Number of Columns: 3 Found: 4",
    ),
    "too few cells": ("t.csv", csv("a,x-2,1"), "line 4: Expected Number of Columns: 9 Found: 3"),
    "open quote": ("t.csv", csv('a,x-2,1,"0.5,3,0,submitted,10,100'), "unterminated quote"),
    "arm missing": ("t.csv", csv(",x-2,1,1,3,0,,,"), "row 3: arm must be text"),
    "arm of blanks": ("t.csv", csv(" \u200b ,x-2,1,1,3,0,,,"), "row 3: arm must be text"),
    "id with a zero byte": ("t.json", jsonl(cells(instance_id="x\0")), "must be text"),
    "id that is half a pair": (
        "t.json",
        b'[{"arm":"a","task_id":"\\ud800","passed":1}]',
        "surrogate",
    ),
    "arm that colours a terminal": ("t.json", jsonl(cells(arm="\x1b[31ma")), "arm must be text"),
    "id that is bytes": ("t.parquet", parquet(**bytes_as_id()), "instance_id must be text"),
    "id that is a time": ("t.parquet", parquet(**times_as_id()), "instance_id must be text"),
    "id that is a float": ("t.json", jsonl(cells(instance_id=1.5)), "row 1: instance_id must"),
    "verdict maybe": ("t.csv", csv("a,x-2,maybe,1,3,0,,,"), "row 3: resolved must be true, false,"),
    "verdict 0.5": ("t.csv", csv("a,x-2,0.5,1,3,0,,,"), "not 0.5"),
    "cost below 0": ("t.csv", csv("a,x-2,1,-1,3,0,,,"), "cost_usd must be an amount"),
    "cost with a comma": ("t.csv", csv('a,x-2,1,"0,5",3,0,,,'), "not '0,5'"),
    "huge cost": ("t.csv", csv("a,x-2,1,1e13,3,0,,,"), "below a trillion"),
    "huge decimal cost": (
        "t.parquet",
        parquet(
            arm=["a"],
            instance_id=["x"],
            resolved=[True],
            cost=pa.array([Decimal("1e30")], pa.decimal256(60, 2)),
        ),
        "below a trillion",
    ),
    "id that is a fraction": (
        "t.parquet",
        parquet(arm=["a"], instance_id=pa.array([Decimal("1.5")]), resolved=[True]),
        "instance_id must be text, not 1.5",
    ),
    "half a call": ("t.csv", csv("a,x-2,1,1,3.5,0,,,"), "api_calls must be a whole number"),
    "tokens as text": ("t.csv", csv("a,x-2,1,1,3,0,,,many"), "input_tokens must be a whole"),
    "repeat missing": ("t.csv", csv("a,x-2,1,1,3,,,,"), "repeat must be a whole number of at"),
    "repeat of a thousand": ("t.csv", csv("a,x-2,1,1,3,1000,,,"), "at most 100, not 1000"),
    "unknown outcome": ("t.csv", csv("a,x-2,1,1,3,0,so-so,,"), "known: submitted, gave_up"),
    "resolved without infrastructure": (
        "t.csv",
        csv("a,x-2,1,1,3,0,infrastructure,,"),
        "row 3: resolved is true, and outcome infrastructure; correct one of them",
    ),
    "unresolved and resolved": ("t.csv", csv("a,x-2,0,1,3,0,resolved,,"), "resolved is false, an"),
    "row twice": ("t.csv", csv("a,x-1,1,1,3,0,,,"), "'a' has more than one row for x-1"),
    "repeat twice": ("t.csv", csv("a,x-2,1,1,3,1,,,\na,x-2,1,1,3,1,,,"), "more than one row for"),
}


@pytest.fixture(params=REFUSED)
def refused(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, str]:
    name, content, message = REFUSED[request.param]
    (tmp_path / name).write_bytes(content)
    return tmp_path / name, message


def test_a_file_is_refused_in_one_line(refused: tuple[Path, str], tmp_path: Path) -> None:
    """Each file is refused in one line with the reason and exit code 2, and no lake is made."""
    path, message = refused
    lake = tmp_path / "lake"
    result = CliRunner().invoke(
        app, ["import", "table", str(path), "--name", "x", "--lake", str(lake)]
    )
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1), result.output
    assert message in result.stderr
    assert not lake.exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--primary", "a"],
            "'a' does not name two different arms: write BASELINE:CANDIDATE, of a, b",
        ),
        (["--primary", "a:a"], "does not name two different arms"),
        (["--primary", "a:c"], "does not name two different arms"),
        (["--primary", "a:b", "--compare", "b:a"], "a comparison is declared twice"),
        (["--margin", "0.05"], "a margin and a family need --primary BASELINE:CANDIDATE"),
        (["--compare", "a:b"], "a margin and a family need --primary"),
        (["--primary", "a:b", "--margin", "5"], "--margin 5 is not a share: 0.05 is five"),
        (["--column", "harness=shell"], "has no column 'shell'; it has arm"),
    ],
)
def test_a_wrong_option_is_refused(options: list[str], message: str, tmp_path: Path) -> None:
    """A comparison or column that the table does not have is refused, and no result is written."""
    (tmp_path / "t.csv").write_bytes(f"{HEADER}\n{GOOD}".encode())
    lake = tmp_path / "lake"
    command = ["import", "table", str(tmp_path / "t.csv"), "--name", "x", "--lake", str(lake)]
    result = CliRunner().invoke(app, [*command, *options])
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1), result.output
    assert message in result.stderr
    assert not list(lake.rglob("*.parquet"))
