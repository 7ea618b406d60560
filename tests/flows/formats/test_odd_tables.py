"""Tables as people write them: odd types, bad cells, odd labels, and other column names."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from flows.cli.app import app
from flows.formats.imported_arms import ImportedArm, arm_names
from flows.formats.tables import import_table
from flows.storage.lake import Lake

HEADER = "arm,instance_id,resolved,cost_usd,api_calls\n"


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["import", "table", *arguments])


def attempts(lake: Path) -> dict[tuple[str, str], tuple[float | None, int | None]]:
    """Return cost and calls by arm and instance."""
    found = Lake.existing(str(lake))
    return {
        (arm, row["instance_id"]): (row["cost_usd"], row["model_calls"])
        for folder in (lake / "attempts" / "experiment=x").iterdir()
        for arm in [folder.name.removeprefix("arm=")]
        for unit in found.units("attempts", "*", "x", arm)
        for row in found.read("attempts", "x", arm, unit)
    }


@pytest.mark.parametrize(
    "costs",
    [
        pa.array([Decimal("0.25"), None], pa.decimal128(10, 2)),
        pa.array([Decimal("0.25"), None], pa.decimal256(40, 10)),
        pa.array(np.array([0.25, np.nan], np.float16)),
        pa.array([0.25, None], pa.float32()),
        pa.array(["0.25", "NaN"]),
        pa.array([" 2.5e-1 ", "n/a"], pa.large_string()),
        pa.array([b"0.25", b""]),
        pa.array(["0.25", "unknown"]).dictionary_encode(),
    ],
    ids=lambda costs: str(costs.type),
)
def test_a_number_is_a_number_whatever_its_type(costs: pa.Array, tmp_path: Path) -> None:
    """Numbers are read from any column type, and missing ones are unknown."""
    columns = {
        "arm": pa.array(["a", "a"]).dictionary_encode(),
        "instance_id": pa.array(["x-1", "x-2"], pa.large_string()),
        "resolved": pa.array([Decimal(1), Decimal(0)], pa.decimal128(1, 0)),
        "cost": costs,
        "calls": pa.array([3, None], pa.uint64()),
    }
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    import_table(tmp_path / "t.parquet", "x", {}, str(tmp_path))
    assert attempts(tmp_path) == {("a", "x-1"): (0.25, 3), ("a", "x-2"): (None, None)}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.CSV", "\ufeffArm , INSTANCE_ID,Resolved,Cost,Calls\na,x-1,TRUE,0.25,3\n\na,x-2,0,,\n"),
        ("t.csv", "arm;instance;passed;usd;calls\r\na;x-1;1;0.25;3\r\na;x-2;0;;\r\n"),
        (
            "t.tsv",
            "arm\tinstance\tpassed\tusd\tcalls\na\tx-1\t1.0\t0.25\t3\na\tx-2\tfalse\t-\tNA\n",
        ),
        (
            "t.json",
            '[{"arm": "a", "instance": "x-1", "passed": true, "usd": "0.25", "calls": 3},\n'
            ' {"arm": "a", "instance": "x-2", "passed": 0, "usd": null}]',
        ),
        (
            "t.jsonl",
            '{"arm": "a", "instance": "x-1", "passed": 1, "usd": 0.25, "calls": 3.0}\n\n'
            '{"arm": "a", "instance": "x-2", "passed": "false", "usd": NaN, "note": {"a": 1}}\n',
        ),
        ("t.csv", "Agent,Task,Status,Cost (USD),Calls\na,x-1,Pass,0.25,3\na,x-2,No,,\n"),
        (
            "t.csv",
            "arm,task,verdict,cost,calls\na,x-1,\N{WHITE HEAVY CHECK MARK},0.25,3\na,x-2,n,,\n",
        ),
    ],
)
def test_one_table_in_many_forms(name: str, content: str, tmp_path: Path) -> None:
    """File endings and column names in any case, separators, blanks and spellings of truth all give
    the same table."""
    (tmp_path / name).write_text(content)
    import_table(tmp_path / name, "x", {}, str(tmp_path))
    assert attempts(tmp_path) == {("a", "x-1"): (0.25, 3), ("a", "x-2"): (None, None)}


def test_blanks_around_ids_are_removed_and_reported(tmp_path: Path) -> None:
    """Blanks around ids and arm names are removed, and one line says how many."""
    (tmp_path / "t.csv").write_text(f"{HEADER}a,x-1 ,1,,\na,\u00a0x-2,1,,\na ,x-3,1,,\nb,x-1,0,,\n")
    result = invoke(str(tmp_path / "t.csv"), "--name", "x", "--lake", str(tmp_path))
    assert result.exit_code == 0, result.output
    assert "blanks were taken off the ends of 2 instance ids and 1 arm name." in result.stderr
    assert attempts(tmp_path).keys() == {("a", "x-1"), ("a", "x-2"), ("a", "x-3"), ("b", "x-1")}


def test_labels_that_look_alike_stay_apart(tmp_path: Path) -> None:
    """Similar labels become arms of their own, whatever their order, and keep their labels."""
    labels = ["Model A", "model-a", "Модель", "模型", "Modèle", "x" * 300, "X" * 299, "../.."]
    rows = [{"arm": label, "instance": "x-1", "resolved": 1} for label in labels]
    (tmp_path / "t.json").write_text(json.dumps(rows))
    arms = import_table(tmp_path / "t.json", "x", {}, str(tmp_path))
    names = {arm.label: arm.arm for arm in arms}
    assert len(set(names.values())) == len(labels)
    assert names["model-a"] == "model-a"
    assert names["Model A"].startswith("model-a-")
    assert all(len(name.encode()) < 200 for name in names.values())
    assert names == arm_names(reversed(labels))


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("Модель 3", "модель-3"),
        ("a\N{RIGHT-TO-LEFT OVERRIDE}b", "a-b"),
        ("模型/../x", "模型-..-x"),
        ("e\N{COMBINING ACUTE ACCENT}", "\N{LATIN SMALL LETTER E WITH ACUTE}"),
        ("模" * 300, "模" * 40 + "-"),
        ("\N{ZERO WIDTH SPACE}", "unnamed-"),
        ("a\ud800", "a"),
    ],
)
def test_a_name_has_only_characters_that_show(label: str, name: str) -> None:
    """Controls, separators of paths and invisible characters are replaced; names fit in folders."""
    assert arm_names([label])[label].startswith(name)


def test_a_label_does_not_take_the_name_of_an_earlier_arm() -> None:
    """A label keeps the arm name that it got before, and another label cannot take it."""
    earlier = ImportedArm("model-a", "imported", "", "imported", "", "", (), label="Model A")
    assert arm_names(["Model A"], [earlier]) == {"Model A": "model-a"}
    assert arm_names(["model-a"], [earlier])["model-a"].startswith("model-a-")


@pytest.mark.parametrize("name", ["n" * 300, "../x", ""])
def test_a_name_that_no_folder_can_have_is_refused(name: str, tmp_path: Path) -> None:
    """A name that cannot be a folder is refused before anything is written."""
    (tmp_path / "t.csv").write_text(f"{HEADER}a,x-1,1,,\n")
    result = invoke(str(tmp_path / "t.csv"), "--name", name, "--lake", str(tmp_path / "lake"))
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "cannot name results" in result.stderr
    assert not (tmp_path / "lake").exists()
