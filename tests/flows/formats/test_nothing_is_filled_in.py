"""What an import does not state stays unknown, in the lake and in every sentence of the report."""

from pathlib import Path
from typing import Any

import duckdb
import pytest
from typer.testing import CliRunner

from flows.cli.app import app
from flows.formats.lake_rows import repository
from flows.storage import report_files
from flows.storage.lake import Lake
from reports.questions.history.section import describe_history
from reports.relations import write_relations
from reports.rendering import markdown
from reports.types import STATES, Report


def put(tmp_path: Path, text: str, name: str = "x", file: str = "t.csv") -> Any:
    """Import a table of blank-separated cells from the command line."""
    lines = [",".join(line.split()) for line in text.strip().splitlines()]
    (tmp_path / file).write_text("\n".join(lines) + "\n")
    lake = str(tmp_path / "lake")
    return CliRunner().invoke(
        app, ["import", "table", str(tmp_path / file), "--name", name, "--lake", lake]
    )


def read(tmp_path: Path, name: str = "x") -> Report:
    return report_files.read(Lake.existing(str(tmp_path / "lake")), name)


@pytest.mark.parametrize(
    ("header", "models"),
    [
        ("arm instance_id resolved", ("unknown", "unknown")),
        ("agent instance_id resolved", ("unknown", "unknown")),
        ("model instance_id resolved", ("fable", "bare")),
    ],
)
def test_only_a_column_of_models_names_models(
    header: str, models: tuple[str, str], tmp_path: Path
) -> None:
    """The name of an arm is no model, and no warning compares models that nobody named."""
    assert put(tmp_path, f"{header}\nfable x-1 1\nbare x-1 0").exit_code == 0
    report = read(tmp_path)
    assert tuple(arm.model for arm in report.arms) == models
    warned = any("have different models" in note.text for note in report.notes)
    assert warned is (models[0] != "unknown")


REPOSITORIES = {
    "django__django-11099": "django/django",
    "aws-cloudformation__cfn-lint-3798": "aws-cloudformation/cfn-lint",
    "pallets__flask__x-1": "pallets/flask__x",
    "bugfix-cache": "",
    "a__b-x": "",
    "__a-1": "",
}


def test_only_an_id_of_swebench_names_a_repository(tmp_path: Path) -> None:
    """Any other id names none, tried or not: there is no group and no interval by repository."""
    assert {each: repository(each) for each in REPOSITORIES} == REPOSITORIES
    header, more = "arm instance_id resolved\n", "\na x__y-1 0\nb x__y-1 1"
    rows = "\n".join(f"a {each} 1" for each in REPOSITORIES)
    assert put(tmp_path, f"{header}{rows}{more}").exit_code == 0
    write_relations(tmp_path / "lake", "x", tmp_path / "x.duckdb")
    with duckdb.connect(tmp_path / "x.duckdb") as relations:
        found = relations.execute("select instance_id, repository from marts.instances").fetchall()
    named = {each: name or None for each, name in REPOSITORIES.items()}
    assert dict(found) == {**named, "x__y-1": "x/y"}
    assert put(tmp_path, f"{header}a django__django-1 1{more}", "all", "all.csv").exit_code == 0
    for name, is_known in (("x", False), ("all", True)):
        report = read(tmp_path, name)
        assert report.resampled
        assert (report.resampled.difference_by_repository is not None) is is_known
        assert "1 repository" not in markdown.render(report)


def test_a_row_without_a_verdict_that_used_something_was_run(tmp_path: Path) -> None:
    """Such a row is not graded, and what it used counts. Another one says nothing."""
    used = {"x-1": "3 -", "x-2": "- 3", "x-3": "- -", "x-4": "0 -", "x-5": "- 0"}
    rows = "\n".join(f"a {each} null {amounts}" for each, amounts in used.items())
    said = put(tmp_path, f"arm instance_id resolved cost input_tokens\n{rows}\na x-6 1 4 4").stderr
    for state in ("ungraded", "missing"):
        assert f"counts as {STATES[state]}." in said or f"count as {STATES[state]}." in said
    report = read(tmp_path)
    assert {cell.instance_id: cell.state for cell in report.cells} == {
        **dict.fromkeys(("x-1", "x-2"), "ungraded"),
        **dict.fromkeys(("x-3", "x-4", "x-5"), "missing"),
        "x-6": "resolved",
    }
    [arm] = report.arms
    assert (arm.started, arm.cost.usd) == (3, 7.0)


@pytest.mark.parametrize(
    ("header", "cells", "ended"),
    [
        ("resolved", ["0"], []),
        (
            "resolved outcome",
            ["0 submitted", "0 out_of_steps"],
            ["out of steps", "submitted a patch"],
        ),
        ("resolved cost", ["- 1"], []),
    ],
)
def test_only_an_outcome_says_how_an_attempt_ended(
    header: str, cells: list[str], ended: list[str], tmp_path: Path
) -> None:
    """A verdict alone does not say that a patch was submitted. Without an outcome, there is no
    table of them."""
    rows = "\n".join(f"a x-{number} {each}" for number, each in enumerate(cells))
    assert put(tmp_path, f"arm instance_id {header}\n{rows}").exit_code == 0
    section = read(tmp_path).section("failures")
    tables = {table.header[0]: table.rows for table in section.tables} if section else {}
    found = tables.get("Ending reported by the attempt", ())
    assert sorted(str(row[0]) for row in found) == ended


def test_the_time_of_an_import_is_not_the_time_of_a_run(tmp_path: Path) -> None:
    """A series of imports has no dates, and runs of the same instances are comparable."""
    for day, verdict, more in ((1, 1, ""), (2, 0, ""), (3, 1, "a x-9 1")):
        name = f"night-2026030{day}t000000"
        table = f"arm instance_id resolved\na x-1 {verdict}\na x-2 1\n{more}"
        assert put(tmp_path, table, name, f"{name}.csv").exit_code == 0
    found = report_files.read_history(Lake.existing(str(tmp_path / "lake")), "night")
    [section] = describe_history(found).sections
    assert {row[1] for row in section.tables[0].rows} == {"unknown"}
    first, second, third = (run.experiment for run in found.runs)
    assert found.other_instances == (first, second)
    assert found.before(second) == found.runs[0]
    assert found.before(third) is None
    assert section.figures[0].svg


@pytest.mark.parametrize(
    ("first", "second", "values"),
    [
        ("resolved", "Resolved", "1 0"),
        ("passed", "RESOLVED", "0 true"),
        ("resolved", "success", "true 0"),
        ("cost", "cost_usd", "1 2"),
        ("api_calls", "n_calls", "1 2"),
        ("input_tokens", "prompt_tokens", "5 6"),
    ],
)
def test_columns_that_contradict_each_other_are_refused(
    first: str, second: str, values: str, tmp_path: Path
) -> None:
    """One line names both. Columns that agree, or of which one is unknown, are imported."""
    is_verdict = bool({first.lower(), second.lower()} & {"resolved", "passed"})
    rest = "" if is_verdict else " 1"
    header = f"arm instance_id {first} {second}" + ("" if is_verdict else " is_resolved")
    refused = put(tmp_path, f"{header}\na x-1 {values}{rest}")
    assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1)
    assert "row 1: " in refused.stderr
    assert f"{first} and {second}" in refused.stderr or f"{second} and {first}" in refused.stderr
    one = values.split()[0]
    assert put(tmp_path, f"{header}\na x-1 {one} {one}{rest}\na x-2 {one} -{rest}").exit_code == 0


@pytest.mark.parametrize("file", ["t.json", "t.jsonl"])
@pytest.mark.parametrize("second", ["false", "null", "true"])
def test_a_key_twice_is_refused(file: str, second: str, tmp_path: Path) -> None:
    """A row that has a key twice is refused."""
    row = f'{{"arm":"a","instance_id":"x-1","resolved":true,"resolved":{second}}}'
    result = put(tmp_path, f"[{row}]" if file == "t.json" else row, file=file)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert 'has duplicate key "resolved"' in result.stderr
