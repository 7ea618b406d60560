"""A report's pages in the lake."""

from pathlib import Path

from click.testing import Result
from typer.testing import CliRunner

from flows.cli.app import app
from flows.storage import report_files
from flows.storage.lake import Lake
from flows.storage.retention import of_experiment
from tests.reports.lake_fixture import LakeBuilder


def report(*arguments: str) -> Result:
    """Run `durabench report`."""
    return CliRunner().invoke(app, ["report", *arguments])


def test_only_linked_pages_exist(tmp_path: Path) -> None:
    """Only the linked pages exist: those of an earlier report that are no longer linked are
    removed."""
    built = LakeBuilder(tmp_path)
    built.declare(["a", "b"], ["i1"])
    built.cell("a", "i1", attempt_id="won")
    built.steps("a", "i1", "won", {})
    lake = Lake.existing(tmp_path)
    report_files.write(lake, report_files.read(lake, "trial"))
    page = report_files.page_path(lake, "trial")
    folder = page.with_name("trajectories")
    assert [path.name for path in folder.iterdir()] == ["won.html"]
    assert 'href="trajectories/won.html"' in page.read_text()
    built.cell("b", "i1")
    report_files.write(lake, report_files.read(lake, "trial"))
    assert list(folder.iterdir()) == []
    assert "trajectories/" not in page.read_text()


def test_the_page_of_a_pair_is_beside_that_of_all_arms(tmp_path: Path) -> None:
    """Comparing two arms adds a page with its own trajectories and leaves the page of all arms."""
    built = LakeBuilder(tmp_path)
    built.declare(["a", "b", "c"], ["i1"])
    built.cell("a", "i1", attempt_id="won")
    built.steps("a", "i1", "won", {})
    built.cell("c", "i1", "unresolved")
    lake = Lake.existing(tmp_path)
    report_files.write(lake, report_files.read(lake, "trial"))
    whole = report_files.page_path(lake, "trial").read_text()
    shown = report("trial", "--compare", "a", "c", "--lake", str(tmp_path))
    assert shown.exit_code == 0, shown.output
    page = report_files.page_path(lake, "trial", ("a", "c"))
    assert page == tmp_path / "reports/trial/compare/a/c/index.html"
    assert 'href="trajectories/won.html"' in page.read_text()
    assert page.with_name("trajectories").joinpath("won.html").exists()
    assert page.with_name("report.md").exists()
    assert report_files.page_path(lake, "trial").read_text() == whole
    files = [path for path in (tmp_path / "reports").rglob("*") if path.is_file()]
    assert {file.path for file in of_experiment(lake, "trial")} >= set(files)
