"""The state of cells according to a lake."""

from dataclasses import replace
from pathlib import Path

import pytest

from eval import instances
from flows.experiments import declaration
from flows.experiments.cell_state import CellStates, submission
from flows.experiments.cells import Cell, Place, plan
from flows.experiments.keys import attempt_key, result_name
from flows.storage.lake import Lake
from tests.reports.lake_fixture import LakeBuilder

INSTANCE = instances.load("bundled")[0]

DECLARED = declaration.parse(
    {
        "name": "trial",
        "environment": "docker",
        "arms": [{"name": name, "agent": name} for name in ("gold", "null")],
    },
    "test",
)


def cells(count: int) -> list[Cell]:
    """Return a plan of `count` cells over two arms."""
    chosen = [
        replace(INSTANCE, instance_id=f"a__b-{number}", row={"number": number})
        for number in range(count // 2)
    ]
    return plan(DECLARED, chosen, Place("docker"))


def solve(cell: Cell, lake: Lake) -> None:
    """Write what a finished attempt of a cell leaves in the lake."""
    key, arm, instance_id = attempt_key(cell), cell.arm.name, cell.instance.instance_id
    builder = LakeBuilder(Path(lake.root))
    builder.attempt(arm, instance_id, unit=key[:32], attempt_id=key[:32], model_calls=0)
    builder.predict(arm, instance_id, key[:32], key[:32])
    remember("attempt", key, lake)


def grade(cell: Cell, lake: Lake, image: str = "sha256:1") -> None:
    """Write what a grading on an image leaves in the lake."""
    attempt_id = attempt_key(cell)[:32]
    patch = submission(cell, attempt_id, lake)
    key = patch.at(replace(cell.place, image_digest=image)).verdict_key
    LakeBuilder(Path(lake.root)).evaluate(
        cell.arm.name,
        cell.instance.instance_id,
        attempt_id,
        "resolved",
        unit=f"{attempt_id}-{key[:12]}",
        image_digest=image,
    )
    remember("evaluation", key, lake)


def remember(task: str, key: str, lake: Lake) -> None:
    """Write what Prefect keeps of a finished task."""
    path = Path(lake.results / result_name(task, key))
    path.parent.mkdir(exist_ok=True)
    path.touch()


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.existing(tmp_path / "lake")


def test_a_verdict_that_another_run_added_is_found(lake: Lake) -> None:
    """Verdicts that another run adds later are found: a first verdict, and one on a new image."""
    graded, other = cells(2)[0], cells(4)[2]
    for cell in (graded, other):
        solve(cell, lake)
    grade(graded, lake)
    states = CellStates(lake)
    assert states.cell_at(graded, None, grade=True) == Place("docker", "sha256:1")
    assert states.results([graded, other], grade=True) == ["resolved", None]
    grade(other, lake)
    assert states.results([graded, other], grade=True) == ["resolved", "resolved"]
    assert states.cell_at(graded, "sha256:2", grade=True) is None
    grade(graded, lake, "sha256:2")
    assert states.cell_at(graded, "sha256:2", grade=True) == Place("docker", "sha256:2")


def test_an_instance_without_a_local_image_is_finished_as_a_whole(lake: Lake) -> None:
    """If work on one of its cells is missing, its image will be pulled, and may differ from that of
    the other verdicts. Where no image is pulled, each cell counts by itself."""
    graded, missing, elsewhere = cells(4)[:3]
    for cell in (graded, elsewhere):
        solve(cell, lake)
        grade(cell, lake)
    assert graded.instance == missing.instance != elsewhere.instance
    planned = [graded, missing, elsewhere]
    named = [
        replace(cell, instance=replace(cell.instance, image=cell.instance.instance_id))
        for cell in planned
    ]
    states = CellStates(lake)
    image = named[0].instance.image
    assert states.results(named, {}, grade=True) == [None, None, "resolved"]
    assert states.results(named, {image: "sha256:1"}, grade=True) == ["resolved", None, "resolved"]
    assert states.results(named, {image: "sha256:2"}, grade=True) == [None, None, "resolved"]
    assert states.results(named, grade=True) == ["resolved", None, "resolved"]


def test_without_gradings_the_result_is_that_of_the_attempt(lake: Lake) -> None:
    """An attempt without a verdict is unfinished only if a verdict is wanted."""
    [cell, _] = cells(2)
    solve(cell, lake)
    assert CellStates(lake).results([cell], grade=False) == ["submitted"]
    assert CellStates(lake).results([cell], grade=True) == [None]
