"""Notebooks run from top to bottom on any lake, and are kept without outputs."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.reports.lake_fixture import LakeBuilder

NOTEBOOKS = sorted((Path(__file__).resolve().parents[1] / "notebooks").glob("*.ipynb"))


def code_cells(path: Path) -> list[dict[str, Any]]:
    cells = json.loads(path.read_text())["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_top_to_bottom(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every code cell, in order, in one namespace."""
    lake = LakeBuilder(tmp_path)
    lake.declare(["a", "b"], ["i1", "i2"])
    for arm in ("a", "b"):
        lake.cell(arm, "i1")
    monkeypatch.setenv("DURABENCH_LAKE", str(lake.root))
    monkeypatch.setenv("DURABENCH_EXPERIMENT", "trial")
    namespace: dict[str, Any] = {}
    for cell in code_cells(path):
        exec("".join(cell["source"]), namespace)
    assert len(namespace["report"].arms) == 2


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs(path: Path) -> None:
    """What a run prints belongs to the run."""
    assert all(cell["outputs"] == [] for cell in code_cells(path))
