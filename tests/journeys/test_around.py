"""What is looked up, checked and cleaned before, beside and after the work."""

import json
import shutil

import pytest

from agent.arms.command.recipe import shipped
from eval import instances
from tests.flows.imports.trajectories import HARBOR_JOB
from tests.journeys.command_line import Terminal
from tests.journeys.test_predictions import FIRST

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.journey("power", "agents list", "agents show", "setup", "doctor", "prune")
def test_before_and_after_a_run(terminal: Terminal) -> None:
    """Nothing of this needs a lake with results."""
    assert "points" in terminal.durabench("power", "--instances", "100")
    listed = terminal.durabench("agents", "list")
    assert [line.split()[0] for line in listed.splitlines()] == shipped()
    assert "dialect: " in terminal.durabench("agents", "show", shipped()[0])
    terminal.durabench("setup")
    assert "nothing is missing" in terminal.durabench("setup")
    (terminal.folder / "lake").mkdir()
    assert f"lake {terminal.folder / 'lake'}" in terminal.durabench("doctor")
    assert "0 bytes would be freed" in terminal.durabench("prune", "--only", "steps")


@pytest.mark.journey("demo", "debug")
def test_one_attempt_is_watched(terminal: Terminal, environment: str) -> None:
    """A scripted attempt is shown as a tree, and an instance is solved afresh, step by step."""
    where = ("-e", environment)
    shown = terminal.durabench("demo", "--scenario", "direct", *where)
    assert "files left: notes.txt" in shown
    printed = terminal.durabench("debug", FIRST.instance_id, "--arm", "gold", *where)
    assert f"gold on {FIRST.instance_id}: resolved" in printed
    [row] = [each for each in terminal.rows("evaluations") if each["outcome"] == "resolved"]
    assert row["environment"] == environment


@pytest.mark.docker
@pytest.mark.journey("images check", "images build", "images preflight", "images prune")
def test_images_are_built_and_trusted(terminal: Terminal) -> None:
    """A second preflight reads what the first one has found."""
    ids = ("--ids", FIRST.instance_id)
    terminal.durabench("images", "build", *ids)
    assert "1 of 1 images are available" in terminal.durabench("images", "check", *ids)
    terminal.durabench("images", "preflight", *ids)
    [row] = terminal.rows("preflights")
    terminal.durabench("images", "preflight", *ids)
    assert terminal.rows("preflights") == [row]
    terminal.durabench("images", "prune")


@pytest.mark.journey("import swebench", "import harbor", "report")
def test_results_of_others_are_imported(terminal: Terminal) -> None:
    """A report of each has the verdicts of its files."""
    ids = [each.instance_id for each in instances.load("bundled")[:2]]
    found = {"resolved_ids": ids[:1], "unresolved_ids": ids[1:], "submitted_ids": ids}
    (terminal.folder / "report.json").write_text(json.dumps(found))
    lines = [
        json.dumps({"instance_id": each, "model_name_or_path": "them", "model_patch": "diff"})
        for each in ids
    ]
    (terminal.folder / "preds.jsonl").write_text("\n".join(lines))
    official = ("import", "swebench", "report.json", "--predictions", "preds.jsonl")
    assert "1 of 2" in terminal.durabench(*official, "--name", "official")
    assert "them resolves 1 of 2" in terminal.durabench("report", "official")
    shutil.copytree(HARBOR_JOB, terminal.folder / "job")
    assert "durabench report harbor" in terminal.durabench(
        "import", "harbor", "job", "--name", "harbor"
    )
    assert "lake/reports/harbor/index.html" in terminal.durabench("report", "harbor")
