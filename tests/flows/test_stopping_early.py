"""An experiment ends as soon as its primary comparison is decided."""

from typing import Any

import pytest
from typer.testing import CliRunner

from flows.benchmark import benchmark
from flows.cli.app import app
from flows.experiments.declaration import Experiment
from flows.storage import report_files
from flows.storage.lake import Lake
from tests.flows.conftest import trial

pytestmark = [pytest.mark.usefixtures("prefect"), pytest.mark.slow]


def controls(**changes: Any) -> Experiment:
    """Return an experiment on eight bundled instances, of which `gold` resolves every one."""
    arms = [{"name": name, "agent": name} for name in ("gold", "null")]
    content = {
        "arms": arms,
        "select": {"slice": ":8"},
        "primary": {"baseline": "null", "candidate": "gold"},
        "stop_when": {"primary": "decided", "alpha": 0.2},
        "concurrency": 2,
    }
    return trial(**content | changes)


def attempts(lake: Lake) -> dict[str, set[str]]:
    """Return the arms that have an attempt, by instance."""
    found: dict[str, set[str]] = {}
    for arm in ("gold", "null"):
        for unit in lake.units("attempts", "*", "trial", arm):
            [row] = lake.read("attempts", "trial", arm, unit)
            found.setdefault(row["instance_id"], set()).add(arm)
    return found


@pytest.mark.full
async def test_an_experiment_ends_when_its_primary_comparison_is_decided(
    lake_path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Five instances decide at 20 %. What has begun is finished, and nothing begins again until
    the rule is gone."""
    await benchmark(controls(), lake_path)
    lake = Lake.existing(lake_path)
    begun = attempts(lake)
    assert 5 <= len(begun) <= 7
    assert all(arms == {"gold", "null"} for arms in begun.values())
    spared = 16 - 2 * len(begun)
    line = f"[16/16] not needed: {spared}, because it is decided: gold resolves more than null"
    assert line in " ".join(capsys.readouterr().err.split())

    built = report_files.read(lake, "trial")
    assert built.audits == ()
    assert {arm.name: (arm.resolved, arm.planned) for arm in built.arms} == {
        "gold": (len(begun), len(begun)),
        "null": (0, len(begun)),
    }
    [text] = [note.text for note in built.notes if "ended early" in note.text]
    assert f"{spared} of 16 planned cells were not needed" in text

    await benchmark(controls(), lake_path)
    assert attempts(lake) == begun
    shown = CliRunner().invoke(app, ["status", "trial", "--lake", lake_path]).stdout
    assert f"{16 - spared} of {16 - spared} cells done" in shown
    ended = (
        f"ended early: gold resolves more than null; {spared} of 16 planned cells were not needed"
    )
    assert ended in " ".join(shown.split())

    await benchmark(controls(stop_when=None), lake_path)
    assert len(attempts(lake)) == 8
    built = report_files.read(lake, "trial")
    assert {arm.planned for arm in built.arms} == {8}
    assert not [note for note in built.notes if "ended early" in note.text]
