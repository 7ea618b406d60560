"""A report's pages in the lake."""

from pathlib import Path

from flows.storage import report_files
from flows.storage.lake import Lake
from tests.reports.lake_fixture import LakeBuilder


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
