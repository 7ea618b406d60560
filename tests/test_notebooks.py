"""Notebooks run from top to bottom on any lake, and are stored with what they show of the demo."""

import re
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from reports.build import build
from tests.reports.lake_fixture import LakeBuilder
from tests.reports.many_arms import fill

ROOT = Path(__file__).resolve().parents[1]
REAL_RUNS = ROOT / "notebooks" / "real_runs.ipynb"
"""It reads the published table, and no lake."""
NOTEBOOKS = sorted({*(ROOT / "notebooks").glob("*.ipynb")} - {REAL_RUNS})
NOTEBOOK_OF_ABLATIONS = ROOT / "notebooks" / "ablation.ipynb"
DEMO = ROOT / "lake"
"""The lake that `make demo` creates."""

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

named = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def run_all(path: Path, lake: Path, experiment: str, patch: pytest.MonkeyPatch) -> list[Any]:
    """Run all cells of a notebook in a new kernel and return the outputs of its code cells.

    Raises:
        CellExecutionError: a cell fails; its traceback ends with what the notebook shows.
    """
    patch.setenv("DURABENCH_LAKE", str(lake))
    patch.setenv("DURABENCH_EXPERIMENT", experiment)
    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(path.parent)}}
    NotebookClient(notebook, timeout=180, resources=resources).execute()
    return [cell["outputs"] for cell in notebook["cells"] if cell["cell_type"] == "code"]


@pytest.mark.slow
@named
@pytest.mark.full
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
    drawn = [each for one in build(lake.root, "trial").sections for each in one.figures]
    assert len(drawn) >= 7
    for figure in drawn:
        assert sum(f'alt="{escape(figure.description)}"' in text for text in shown) == 1


@pytest.mark.slow
@named
@pytest.mark.skipif(not (DEMO / "attempts").is_dir(), reason="make demo has not run here")
def test_a_notebook_runs_on_the_demo_lake(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A notebook shows the same kinds of output on the lake of the demo as it is stored with."""
    stored = [cell["outputs"] for cell in read_code(path)]
    assert list_kinds(run_all(path, DEMO, "bundled", monkeypatch)) == list_kinds(stored)


ABLATION = {"durable": None, "plain": "durable", "strict": "durable", "rival": None}
"""Arms, with those that they derive from."""
RESOLVED = {"durable": 8, "plain": 6, "strict": 8, "rival": 5}
"""By arm, how many of ten instances it resolves, the first ones."""


@pytest.mark.slow
@pytest.mark.full
def test_the_ablation_compares_each_arm_with_its_base(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says what sharing saved, what each part changes, and which cells a part decides."""
    lake = LakeBuilder(tmp_path)
    instances = [f"i{number}" for number in range(10)]
    for order, (arm, base) in enumerate(ABLATION.items()):
        lake.declare([arm], instances, arm_order=order, derived_from=base)
    for number, instance in enumerate(instances):
        for arm, base in ABLATION.items():
            shared = {"base_attempt_id": f"{base}-{instance}", "reused_calls": 2}
            lake.cell(
                arm,
                instance,
                "resolved" if number < RESOLVED[arm] else "unresolved",
                attempt_id=f"{arm}-{instance}",
                model_calls=4,
                cost_usd=0.4,
                billed_usd=0.2 if base else 0.4,
                **({**shared, "reused_usd": 0.2} if base else {}),
            )
    outputs = run_all(NOTEBOOK_OF_ABLATIONS, lake.root, "trial", monkeypatch)
    assert not [each for output in outputs for each in output if each["output_type"] == "error"]
    _, saved, effects, figure, variances, decided = (
        " ".join(each["data"].get("text/plain", "") for each in output if "data" in each)
        for output in outputs
    )
    lines = {arm: row(effects, arm) for arm in ABLATION if arm in effects}
    assert list(lines) == ["durable", "plain", "strict", "rival"]
    assert "-20.0" in lines["plain"]
    assert "-30.0" in lines["rival"]
    assert "0.0" in lines["strict"]
    assert "durable" in row(saved, "plain")
    assert "rival" not in saved
    assert figure
    assert "rival" in variances
    named = [f"{arm}-i{number}" for arm in ABLATION for number in range(10)]
    assert [name for name in named if name in decided] == [
        *("durable-i5", "durable-i6", "durable-i7", "plain-i6", "plain-i7"),
        *("rival-i5", "rival-i6", "rival-i7"),
    ]


def row(table: str, name: str) -> str:
    """Return the line of a table that holds a name."""
    return next(line for line in table.splitlines() if name in line)


def read_code(path: Path) -> list[Any]:
    """Return the code cells of a stored notebook."""
    cells = nbformat.read(path, as_version=4)["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def list_kinds(outputs: list[Any]) -> list[set[str]]:
    """Return the kinds of output of each cell: `error`, names of streams and MIME types."""
    return [
        {kind for each in cell for kind in (each.get("data") or [each.get("name", "error")])}
        for cell in outputs
    ]


def list_texts(outputs: list[Any]) -> list[str]:
    """Return what each cell prints, and its tables and the descriptions of its figures.

    A slow kernel sends what one statement prints in several parts.
    """
    texts = []
    for cell in outputs:
        texts.append("".join(each["text"] for each in cell if "text" in each))
        texts += [each["data"]["text/plain"] for each in cell if "data" in each]
    return texts


def test_the_stored_outputs_are_of_one_run_of_the_demo() -> None:
    """Each cell was run once, in order and without warnings. No path of a machine is stored, and
    all notebooks together are smaller than a megabyte."""
    for path in (*NOTEBOOKS, REAL_RUNS):
        cells = read_code(path)
        assert [cell["execution_count"] for cell in cells] == [*range(1, len(cells) + 1)], path
        outputs = [cell["outputs"] for cell in cells]
        assert path == REAL_RUNS or outputs[0][0]["text"].startswith("Experiment bundled\n")
        assert not {"error", "stderr"} & set().union(*list_kinds(outputs))
        assert re.findall(r"/(?:home|root|tmp|work)/[\w./-]*", str(outputs)) == []
    assert sum(path.stat().st_size for path in (*NOTEBOOKS, REAL_RUNS)) < 1_000_000


@pytest.mark.slow
def test_the_real_runs_are_stored_as_they_are_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The notebook of the published runs shows the same numbers whenever it runs."""
    stored = [cell["outputs"] for cell in read_code(REAL_RUNS)]
    assert list_texts(run_all(REAL_RUNS, tmp_path, "", monkeypatch)) == list_texts(stored)


def test_a_notebook_opens_the_newest_experiment_or_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without an experiment, the newest is shown, and without a lake one sentence."""
    path = ROOT / "notebooks" / "trajectory_explorer.ipynb"
    with pytest.raises(CellExecutionError) as caught:
        run_all(path, tmp_path / "none", "", monkeypatch)
    assert caught.value.traceback.rpartition("---\n")[2].strip() == (
        f"there is no lake at {tmp_path}/none: run `durabench demo` first, or set DURABENCH_LAKE"
    )
    for name, hour in (("zeta", 1), ("alpha", 2)):
        lake = LakeBuilder(tmp_path, name)
        lake.declare(["a"], ["i1"], declared_at=datetime(2026, 3, 1, hour, tzinfo=UTC))
        lake.cell("a", "i1")
    [first, *_] = run_all(path, tmp_path, "", monkeypatch)
    assert first[0]["text"] == "Experiment alpha\n"
