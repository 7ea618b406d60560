"""Notebooks run from top to bottom on any lake and are stored without outputs."""

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from reports.build import build
from reports.rendering.drawn import draw_all
from tests.reports.lake_fixture import LakeBuilder
from tests.reports.many_arms import fill

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
DEMO = ROOT / "lake"
"""The lake that `make demo` creates."""

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

named = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def run_all(path: Path, lake: Path, experiment: str, patch: pytest.MonkeyPatch) -> list[Any]:
    """Run all cells of a notebook in a new kernel and return the outputs of its code cells."""
    patch.setenv("DURABENCH_LAKE", str(lake))
    patch.setenv("DURABENCH_EXPERIMENT", experiment)
    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(path.parent)}}
    NotebookClient(notebook, timeout=180, resources=resources).execute()
    return [cell["outputs"] for cell in notebook["cells"] if cell["cell_type"] == "code"]


@pytest.mark.slow
@named
def test_a_notebook_runs_on_a_lake_that_says_little(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A notebook runs on a lake whose attempts have no steps, calls or patches."""
    lake = LakeBuilder(tmp_path)
    lake.declare(["a", "b"], ["i1", "i2"])
    for arm in ("a", "b"):
        lake.cell(arm, "i1")
    assert any(run_all(path, lake.root, "trial", monkeypatch))


@pytest.mark.slow
@pytest.mark.full
def test_the_walk_shows_the_figures_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The walk through the question shows every figure of the page, also with long names."""
    lake = LakeBuilder(tmp_path)
    fill(lake, 12, 12, priced=True)
    outputs = run_all(ROOT / "notebooks" / "which_harness.ipynb", lake.root, "trial", monkeypatch)
    shown = [
        output["data"].get("text/html", "")
        for cell in outputs
        for output in cell
        if output["output_type"] == "display_data"
    ]
    drawn = [each for figures in draw_all(build(lake.root, "trial")).values() for each in figures]
    assert len(drawn) >= 7
    for figure in drawn:
        assert sum(f'aria-labelledby="{figure.name}-alt"' in text for text in shown) == 1


@pytest.mark.slow
@named
@pytest.mark.skipif(not (DEMO / "attempts").is_dir(), reason="make demo has not run here")
def test_a_notebook_runs_on_the_demo_lake(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A notebook runs on the lake of the README's demo."""
    assert any(run_all(path, DEMO, "bundled", monkeypatch))


@named
def test_a_notebook_is_kept_without_outputs(path: Path) -> None:
    """A stored notebook has no outputs."""
    cells = json.loads(path.read_text())["cells"]
    assert all(cell["outputs"] == [] for cell in cells if cell["cell_type"] == "code")
