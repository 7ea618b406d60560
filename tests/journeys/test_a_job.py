"""Jobs and pipelines on a real repository, from the command to the branch or pull request."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from docker import DockerClient

from flows.jobs.request import FORGE, TOKEN
from flows.storage.images import CACHE_VARIABLE
from flows.storage.lake import Row
from tests.flows.jobs.conftest import FILES, NAME, REPAIR, arm, pipeline, step
from tests.journeys.command_line import Terminal
from tests.servers.forge import Forge
from tests.servers.prefect_server import PrefectServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

BASE = "durabench/base:bookworm"


@pytest.fixture
def forge(tmp_path: Path, terminal: Terminal) -> Iterator[Forge]:
    """Yield a forge with one project, whose token the terminal has."""
    with Forge(tmp_path / "forge") as forge:
        forge.add(NAME, FILES)
        cache = str(tmp_path / "cache")
        terminal.variables.update({FORGE: forge.url, TOKEN: forge.token, CACHE_VARIABLE: cache})
        yield forge


@pytest.fixture
def place(environment: str, request: pytest.FixtureRequest, terminal: Terminal) -> Iterator[str]:
    """Yield the environment, and remove the images that jobs have made there."""
    yield environment
    if environment == "docker":
        client: DockerClient = request.getfixturevalue("docker_client")
        for image in {row["image"] for row in terminal.lake.all_shared("jobs")} - {None, BASE}:
            client.images.remove(image, force=True)


def jobs(terminal: Terminal) -> list[Row]:
    """Return the rows of the jobs, the first one first."""
    return sorted(terminal.lake.all_shared("jobs"), key=lambda row: row["submitted_at"])


def in_place(environment: str) -> list[str]:
    return ["-e", environment, *(["--image", BASE] if environment == "docker" else [])]


@pytest.mark.journey("job run", "jobs", "job show", "job approve", "job revise", "job cancel")
def test_a_job_is_verified_and_published(
    terminal: Terminal, forge: Forge, place: str, environment: str
) -> None:
    """It waits for approval, and then has one pull request, which a revision
    without a change leaves as it is. A job that waits can be cancelled instead."""
    arms = [arm("repair", REPAIR), arm("notes", "echo '# Notes' >NOTES.md")]
    file = terminal.write("arms.yaml", {"name": "arms", "arms": arms})
    where = ("-x", file, "--arm", "repair", "--pr", "--approve", *in_place(place))
    printed = terminal.durabench("job", "run", NAME, "Add, don't subtract.", *where)
    [row] = jobs(terminal)
    job_id = row["job_id"]
    assert f"job {job_id}: waiting, verified: " in printed
    assert f"`durabench job approve {job_id}` publishes it" in printed
    assert (row["state"], row["verdict"], forge.pulls[NAME]) == ("waiting", "verified", [])
    assert job_id in terminal.durabench("jobs")
    assert "+    return a + b" in terminal.durabench("job", "show", job_id[:6], "--patch")

    assert forge.pulls[NAME] == []
    approved = terminal.durabench("job", "approve", job_id)
    [pull] = forge.pulls[NAME]
    assert pull["html_url"] in approved
    assert pull["html_url"] in terminal.durabench("job", "show", job_id)
    assert "has ended: it is done" in terminal.refused("job", "cancel", job_id)

    second = ("job", NAME, "Add notes.", "-x", file, "--arm", "notes", "--branch", "--approve")
    terminal.durabench(*second, *in_place(place))
    cancelled = jobs(terminal)[-1]["job_id"]
    assert f"job {cancelled} is cancelled" in terminal.durabench("job", "cancel", cancelled)
    assert jobs(terminal)[-1]["state"] == "cancelled"
    assert len(forge.branches(NAME)) == 2

    revised = terminal.durabench("job", "revise", job_id, "Add a test.", code=1)
    assert "no arm left a patch" in revised  # the scripted arm repairs what is repaired


@pytest.mark.journey(
    *("pipeline check", "pipeline run", "pipeline runs", "pipeline show"),
    *("pipeline deploy", "pipeline delete", "setup"),
)
def test_a_pipeline_builds_on_what_is_approved(
    terminal: Terminal, forge: Forge, place: str, prefect_server: PrefectServer
) -> None:
    """Its first step waits, and approving that leads to the pull request of both."""
    image = BASE if place == "docker" else None
    steps = (step("fix", REPAIR, approval=True), step("notes", "echo a >NOTES.md", "fix"))
    declared = pipeline(*steps, environment=place, image=image)
    file = terminal.write("release.yaml", declared.model_dump(mode="json"))
    assert "2. notes ← fix" in terminal.durabench("pipeline", "check", file)
    printed = terminal.durabench("pipeline", "run", file)
    waiting = printed.partition("`durabench job approve ")[2].partition("`")[0]
    run_id = printed.partition("run ")[2].partition(" ")[0]
    assert forge.pulls[NAME] == []
    approved = terminal.durabench("job", "approve", waiting)
    [pull] = forge.pulls[NAME]
    assert pull["html_url"] in approved
    assert pull["html_url"] in terminal.durabench("pipeline", "runs", "release")
    shown = terminal.durabench("pipeline", "show", run_id[:6])
    assert "| notes | done | verified | notes |" in shown

    terminal.durabench("setup")
    prefect_server.prefect("deploy", "--name", "pipeline")
    assert "is deployed" in terminal.durabench("pipeline", "deploy", file)
    assert "is deleted; its runs stay" in terminal.durabench("pipeline", "delete", "release")
    missing = terminal.refused("pipeline", "run", "release")
    assert "no file, deployed pipeline or run 'release'" in missing
