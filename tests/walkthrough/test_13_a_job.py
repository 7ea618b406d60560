"""A job: a task in any repository becomes a verified draft pull request, alone or in a pipeline."""

from pathlib import Path

import pytest

from agent.project import Folder, detect
from flows.jobs.job import job
from flows.jobs.pipeline import pipeline as run_pipeline
from flows.jobs.verification import VerifiedState, decide
from flows.storage.lake import Lake
from tests.flows.conftest import lake_path
from tests.flows.jobs.conftest import FILES, NAME, REPAIR, forge, pipeline, request, step
from tests.flows.jobs.test_verdicts import GREEN, after, run
from tests.servers.forge import Forge

assert forge, "a fixture"
assert lake_path, "a fixture"


def test_a_project_is_detected_from_its_files_alone(tmp_path: Path) -> None:
    """Nothing is run to find out. Nothing detected is nothing detected, and never a pass."""
    assert detect(Folder(tmp_path)) is None
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    found = detect(Folder(tmp_path))
    assert found is not None
    assert found.tests is not None
    assert (found.kind, found.tests.name) == ("python", "pytest")


def test_a_verdict_compares_tests_before_and_after_a_patch() -> None:
    """Tests that failed before and pass now are the best evidence."""
    red = run(1, passed="a", failed="b")
    runs = [(GREEN, GREEN), (GREEN, red), (red, GREEN)]
    verdicts = [decide(VerifiedState(before, {}), after(patched))[0] for before, patched in runs]
    assert verdicts == ["nothing_broke", "regressed", "repaired"]


@pytest.mark.slow
@pytest.mark.usefixtures("prefect")
async def test_a_task_becomes_one_draft_pull_request(forge: Forge, lake_path: str) -> None:
    """The same request again finds what is there, and buys nothing."""
    for _ in range(2):
        await job(request(REPAIR), lake_path)
    [pull] = forge.pulls[NAME]
    [row] = Lake.existing(lake_path).all_shared("jobs")
    assert (pull["draft"], row["verdict"], row["pull_request"]) == (
        True,
        "nothing_broke",
        pull["html_url"],
    )


def test_a_pipeline_is_checked_when_it_is_declared() -> None:
    """Its layers say which steps run at the same time."""
    checked = pipeline(step("a", REPAIR), step("b", REPAIR), step("c", REPAIR, "a", "b"))
    names = [[each.name for each in layer] for layer in checked.layers]
    assert names == [["a", "b"], ["c"]]


@pytest.mark.slow
@pytest.mark.usefixtures("prefect")
async def test_steps_build_on_each_other(forge: Forge, lake_path: str) -> None:
    """A step sees the changes of what it depends on, and the branch has a commit for each step."""
    copy = "cp calc.py copy.py"
    run_id = await run_pipeline(pipeline(step("a", REPAIR), step("b", copy, "a")), lake_path)
    branch = f"durabench/a-release-{run_id}"
    assert "a + b" in forge.git(NAME, "show", f"{branch}:copy.py")
    assert forge.git(NAME, "rev-list", "--count", f"main..{branch}") == "2"
