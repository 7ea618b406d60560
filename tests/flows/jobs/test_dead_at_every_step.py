"""What is killed between any two of its steps leads to one branch and one pull request.

The process is killed with SIGKILL at each point, and the same job or pipeline runs again.
"""

import os
import signal
from pathlib import Path

import pytest

from flows.jobs import rows
from flows.storage.images import CACHE_VARIABLE
from flows.storage.lake import Lake
from tests.durability.processes import run
from tests.flows.jobs import dying
from tests.flows.jobs.conftest import NAME, REPAIR, pipeline, request, step
from tests.flows.jobs.dying import Doomed
from tests.servers.forge import Forge

pytestmark = [pytest.mark.usefixtures("prefect"), pytest.mark.slow, pytest.mark.timeout(600)]

RUN = "ab12cd34"
"""The run of a pipeline with two steps."""
STEPS = {"": 1, RUN: 2}
"""Steps, each with a call and a commit, of a job and of the pipeline."""


def doomed(folder: Path, name: str, run_id: str) -> Doomed:
    """Return a job or a pipeline that repairs the project and opens a pull request.

    Its lake and its mirror are its own, so that each passes the same points.
    """
    from prefect.settings import PREFECT_API_URL

    own = folder / name
    own.mkdir()
    environment = {
        **os.environ,
        "PREFECT_API_URL": PREFECT_API_URL.value() or "",
        CACHE_VARIABLE: str(own / "cache"),
    }
    number = len(list(folder.iterdir()))
    if run_id:
        steps = step("fix", REPAIR), step("notes", "echo '# Notes' >NOTES.md", "fix")
        asked = pipeline(*steps).model_dump_json()
        return Doomed(asked, f"{run_id}{number:x}", own / "lake", environment)
    asked = request(REPAIR, task=f"Add, don't subtract: {name}.").model_dump_json()
    return Doomed(asked, "", own / "lake", environment)


def is_in_flight(point: str) -> bool:
    """Return True if the model has answered there and the journal does not know it."""
    return point.startswith(("after call", "before record"))


def check(job: Doomed, forge: Forge, point: str) -> None:
    """Check that a job or pipeline has ended as if nothing had happened."""
    lake, steps = Lake.existing(job.lake), STEPS[job.run and RUN]
    states = [(row["state"], row["verdict"]) for row in lake.all_shared("jobs")]
    assert set(states) == {("done", "nothing_broke")}, point
    [row] = [row for row in lake.all_shared("jobs") if not row["run"]]
    found = [pull for pull in forge.pulls[NAME] if pull["head"]["ref"] == row["branch"]]
    assert [pull["html_url"] for pull in found] == [row["pull_request"]], point
    assert forge.branches(NAME)[row["branch"]] == row["commit"], point
    assert forge.git(NAME, "rev-list", "--count", f"main..{row['branch']}") == str(steps), point
    assert len(lake.places("attempts", "*")) == steps, point
    calls = len(job.calls.read_text().splitlines())
    assert calls == steps or (calls == steps + 1 and is_in_flight(point)), point


SHARES = 8
"""Tests among which the points are divided."""


def die_and_continue(forge: Forge, folder: Path, points: list[str], run_id: str) -> None:
    """Kill a job or a pipeline at each point, and run it again."""
    before = len(forge.pulls[NAME])
    for point in points:
        job = doomed(folder, point.replace(" ", "-").replace("/", "-"), run_id)
        assert run(dying.run, job, point) == -signal.SIGKILL, point
        states = [row["state"] for row in rows.read_all(Lake.existing(job.lake))]
        assert "running" not in states, point
        assert run(dying.run, job, None) == 0, point
        check(job, forge, point)
    pulls = before + len(points)
    assert len(forge.pulls[NAME]) == pulls
    assert len(forge.branches(NAME)) == pulls + 1  # with the default branch


@pytest.mark.parametrize("run_id", STEPS, ids=["job", "pipeline"])
def test_a_death_in_the_middle_changes_nothing(run_id: str, forge: Forge, tmp_path: Path) -> None:
    """The process dies while a paid answer is in flight, and after the pull request was opened."""
    die_and_continue(forge, tmp_path, ["after call 0", "after request 5"], run_id)


@pytest.mark.full
@pytest.mark.parametrize("share", range(SHARES))
def test_a_death_of_a_job_between_any_two_steps_changes_nothing(
    share: int, forge: Forge, tmp_path: Path
) -> None:
    """Each job has one branch with one commit, one pull request and one attempt."""
    passed = find_points(forge, tmp_path, "")
    points = ["before record 0", *(point for point in passed if point.startswith("after"))]
    die_and_continue(forge, tmp_path, points[share::SHARES], "")


@pytest.mark.full
def test_a_death_of_a_pipeline_between_rows_changes_nothing(forge: Forge, tmp_path: Path) -> None:
    """Each run has one branch with a commit of each step, and one pull request."""
    passed = find_points(forge, tmp_path, RUN)
    points = [point for point in passed if point.startswith("after write_shared")][::3]
    die_and_continue(forge, tmp_path, points, RUN)


def find_points(forge: Forge, folder: Path, run_id: str) -> list[str]:
    """Return the points that an undisturbed job or pipeline passes."""
    undisturbed = doomed(folder, "undisturbed", run_id)
    assert run(dying.run, undisturbed, None) == 0
    check(undisturbed, forge, "")
    return undisturbed.points.read_text().splitlines()
