"""Comparing what other systems wrote, with one command."""

import csv
import json
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from flows.cli.app import app
from tests.journeys.command_line import Terminal

JOB = Path(__file__).parents[1] / "flows" / "formats" / "harbor_job"
IDS = [f"acme__lib-{number}" for number in range(40)]


def write_table(path: Path, resolved: int, ids: list[str] = IDS) -> None:
    """Write a table in which the first instances are resolved."""
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["instance_id", "arm", "resolved", "cost_usd"])
        table.writerows([name, path.stem, n < resolved, 0.1] for n, name in enumerate(ids))


def write_submission(folder: Path, resolved: int) -> None:
    """Write a predictions file, with the report of swebench."""
    folder.mkdir()
    patch = "diff --git a/x b/x\n"
    lines = [{"instance_id": i, "model_name_or_path": "m", "model_patch": patch} for i in IDS]
    (folder / "all_preds.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    report = {
        "schema_version": 2,
        "submitted_ids": IDS,
        "completed_ids": IDS,
        "resolved_ids": IDS[:resolved],
        "unresolved_ids": IDS[resolved:],
    }
    (folder / "m.run.json").write_text(json.dumps(report))


@pytest.mark.journey("compare")
def test_results_of_two_systems_are_compared(terminal: Terminal) -> None:
    """The arms have the names of their files, and the page is where the command says."""
    write_table(terminal.folder / "plain.csv", 10)
    write_submission(terminal.folder / "careful", 28)
    said = terminal.durabench("compare", "plain.csv", "careful")
    assert "28 of 40" in said
    assert "careful against plain" in said
    assert "The files of careful do not say: cost, tokens" in said
    page = Path(said.rsplit("Report: ", 1)[1].strip())
    assert page.is_file()
    assert "careful" in page.read_text()

    terminal.durabench("import", "table", "plain.csv", "--name", "night")
    said = terminal.durabench("compare", "night", "better=careful", "--margin", "0.05")
    assert "better" in said
    assert "28 of 40" in said
    assert len(terminal.durabench("report", "night")) > 0, "the lake has no arm of the comparison"


@pytest.mark.journey("compare")
def test_jobs_of_harbor_are_compared(terminal: Terminal) -> None:
    """Two jobs are two arms per agent and model, and with --by one per model."""
    for name in ("monday", "tuesday"):
        shutil.copytree(JOB, terminal.folder / name)
    said = terminal.durabench("compare", "monday", "tuesday")
    assert "monday" in said
    assert "tuesday" in said
    said = terminal.durabench("compare", "monday", "--by", "model")
    assert "monday" not in said.partition("Report:")[0]


@pytest.mark.journey("compare")
def test_a_comparison_decides_about_a_pull_request(terminal: Terminal) -> None:
    """The comment fits a forge, and the exit code and the JUnit file agree."""
    write_table(terminal.folder / "main.csv", 20)
    write_table(terminal.folder / "branch.csv", 18)
    options = ("--format", "github", "--junit", "junit.xml")
    said = terminal.durabench(
        "compare", "main.csv", "branch.csv", *options, "--require", "better", code=1
    )
    assert "better does not hold" in said
    assert len(said) <= 60_000
    suites = ElementTree.parse(terminal.folder / "junit.xml").getroot()
    counts = {s.get("name"): (s.get("tests"), s.get("failures"), s.get("skipped")) for s in suites}
    assert counts == {
        "durabench requirement": ("1", "1", "0"),
        "branch against main": ("40", "0", "2"),
    }
    terminal.durabench("compare", "main.csv", "branch.csv", "--require", "no-loss")
    said = terminal.durabench("compare", "main.csv", "branch.csv")
    assert "To settle it: if the difference of 5.0 points between main and branch is real" in said


@pytest.mark.journey("compare")
def test_an_experiment_keeps_its_declared_comparisons(terminal: Terminal) -> None:
    """Next to a foreign table, the declared pair leads in its direction, with its margin."""
    rows = [f"{name},{arm},{n < most}\n" for arm, most in (("a", 26), ("b", 24), ("c", 9))
            for n, name in enumerate(IDS)]  # fmt: skip
    (terminal.folder / "night.csv").write_text("instance_id,arm,resolved\n" + "".join(rows))
    write_table(terminal.folder / "other.csv", 20)
    declared = ("--primary", "b:a", "--margin", "0.2", "--compare", "b:c")
    terminal.durabench("import", "table", "night.csv", "--name", "night", *declared)
    said = terminal.durabench("compare", "other.csv", "night")
    assert "night-a against night-b (primary)" in said
    assert "night-a not worse by more than 20.0 points: shown" in said
    assert "exploratory" not in said
    page = Path(said.rsplit("Report: ", 1)[1].strip()).read_text()
    assert "night-c against night-b" in page

    said = terminal.durabench("compare", "other.csv", "night", "--baseline", "other")
    assert "night-a against other" in said, "a given baseline comes first"


def test_results_that_cannot_be_compared_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each mistake is one line."""
    monkeypatch.chdir(tmp_path)
    write_table(Path("one.csv"), 1)
    write_table(Path("other.csv"), 1, ["else__where-1"])
    Path("empty").mkdir()
    Path("notes.txt").write_text("nothing")
    for arguments, reason in (
        (("one.csv",), "there is one arm only (one)"),
        (("one.csv", "nowhere"), "nowhere is neither a file, a folder nor an experiment"),
        (("one.csv", ""), "an empty name is neither a file, a folder nor an experiment"),
        (("one.csv", "x" * 5000), "xxx is neither a file, a folder nor an experiment"),
        (("one.csv", "."), "holds several tables (one.csv and other.csv): name one of them"),
        (("one.csv", "one.csv"), "two results are called 'one'"),
        (("one.csv", "other.csv"), "no common instance to compare"),
        (("one.csv", "empty"), "holds no results that are known"),
        (("one.csv", "notes.txt"), "not a file of results"),
    ):
        done = CliRunner().invoke(app, ["compare", *arguments])
        assert (done.exit_code, len(done.output.splitlines())) == (2, 1), done.output
        assert reason in done.stderr
