"""A job that is killed between any two of its steps leads to one branch and one pull request.

The process is killed with SIGKILL at each point, and the same job runs again.
"""

import os
import signal
from pathlib import Path

import pytest

from flows.storage.images import CACHE_VARIABLE
from flows.storage.lake import Lake
from tests.durability.processes import run
from tests.flows.jobs import dying
from tests.flows.jobs.conftest import NAME, REPAIR, request
from tests.flows.jobs.dying import Doomed
from tests.servers.forge import Forge

pytestmark = [pytest.mark.usefixtures("prefect"), pytest.mark.slow, pytest.mark.timeout(600)]

IN_FLIGHT = ("after call 0", "before record 0")
"""Points at which the model has answered and the journal does not know it."""


def doomed(folder: Path, name: str) -> Doomed:
    """Return a job that repairs the project and opens a pull request.

    Its lake and its mirror are its own, so that every job passes the same points.
    """
    from prefect.settings import PREFECT_API_URL

    own = folder / name
    own.mkdir()
    environment = {
        **os.environ,
        "PREFECT_API_URL": PREFECT_API_URL.value() or "",
        CACHE_VARIABLE: str(own / "cache"),
    }
    asked = request(REPAIR, task=f"Add, don't subtract: {name}.")
    return Doomed(asked.model_dump_json(), own / "lake", environment)


def check(job: Doomed, forge: Forge, point: str) -> None:
    """Check that a job has ended as if nothing had happened."""
    lake = Lake.existing(job.lake)
    [row] = lake.all_shared("jobs")
    assert (row["state"], row["verdict"]) == ("done", "nothing_broke"), point
    found = [pull for pull in forge.pulls[NAME] if pull["head"]["ref"] == row["branch"]]
    assert [pull["html_url"] for pull in found] == [row["pull_request"]], point
    assert forge.branches(NAME)[row["branch"]] == row["commit"], point
    assert forge.git(NAME, "rev-list", "--count", f"main..{row['branch']}") == "1", point
    assert len(lake.places("attempts", "*")) == 1, point
    calls = len(job.calls.read_text().splitlines())
    assert calls == 1 or (calls == 2 and point in IN_FLIGHT), point


SHARES = 8
"""Tests among which the points are divided."""


def die_and_continue(forge: Forge, folder: Path, points: list[str]) -> None:
    """Kill a job at each point, and run it again."""
    before = len(forge.pulls[NAME])
    for point in points:
        job = doomed(folder, point.replace(" ", "-"))
        assert run(dying.run, job, point) == -signal.SIGKILL, point
        assert run(dying.run, job, None) == 0, point
        check(job, forge, point)
    pulls = before + len(points)
    assert len(forge.pulls[NAME]) == pulls
    assert len(forge.branches(NAME)) == pulls + 1  # with the default branch


def test_a_death_in_the_middle_changes_nothing(forge: Forge, tmp_path: Path) -> None:
    """The process dies while a paid answer is in flight, and after the pull request was opened."""
    die_and_continue(forge, tmp_path, [IN_FLIGHT[0], "after request 5"])


@pytest.mark.full
@pytest.mark.parametrize("share", range(SHARES))
def test_a_death_between_any_two_steps_changes_nothing(
    share: int, forge: Forge, tmp_path: Path
) -> None:
    """Each job has one branch with one commit, one pull request and one attempt."""
    undisturbed = doomed(tmp_path, "undisturbed")
    assert run(dying.run, undisturbed, None) == 0
    check(undisturbed, forge, "")
    passed = undisturbed.points.read_text().splitlines()
    assert {*IN_FLIGHT} <= {*passed}
    points = [*IN_FLIGHT[1:], *(point for point in passed if point.startswith("after"))]
    die_and_continue(forge, tmp_path, points[share::SHARES])
