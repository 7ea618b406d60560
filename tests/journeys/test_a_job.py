"""Jobs and pipelines on a real repository, from the command to the branch or pull request."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from docker import DockerClient

from flows.jobs.request import FORGE, TOKEN
from flows.storage.images import CACHE_VARIABLE
from tests.flows.jobs.conftest import FILES, NAME, REPAIR, arm, pipeline, step
from tests.journeys.command_line import Terminal
from tests.servers.forge import Forge
from tests.servers.prefect_server import PrefectServer
from tests.waiting import wait_until

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


def in_place(environment: str) -> list[str]:
    return ["-e", environment, *(["--image", BASE] if environment == "docker" else [])]


@pytest.mark.journey("job run", "job approve")
def test_a_job_is_verified_and_published(
    terminal: Terminal, forge: Forge, place: str, environment: str
) -> None:
    """It waits for approval, and then has one pull request."""
    file = terminal.write("arms.yaml", {"name": "arms", "arms": [arm("repair", REPAIR)]})
    where = ("-x", file, "--pr", "--approve", *in_place(environment))
    printed = terminal.durabench("job", "run", NAME, "Add, don't subtract.", *where)
    [row] = terminal.lake.all_shared("jobs")
    assert f"job {row['job_id']}: waiting, nothing broke: " in printed
    assert f"`durabench job approve {row['job_id']}` publishes it" in printed
    assert (row["state"], row["verdict"], forge.pulls[NAME]) == ("waiting", "nothing_broke", [])
    approved = terminal.durabench("job", "approve", row["job_id"])
    [pull] = forge.pulls[NAME]
    assert pull["html_url"] in approved


@pytest.mark.journey("jobs", "job show", "job revise", "job cancel")
def test_a_job_is_shown_revised_and_cancelled(terminal: Terminal, forge: Forge) -> None:
    """A revision without a change leaves the branch as it is. A waiting job can be cancelled."""
    file = terminal.write("arms.yaml", {"name": "arms", "arms": [arm("repair", REPAIR)]})
    command = ("job", NAME, "Add, don't subtract.", "-x", file, "-e", "host", "--branch")
    terminal.durabench(*command)
    [row] = terminal.lake.all_shared("jobs")
    job_id = row["job_id"]
    assert job_id in terminal.durabench("jobs")
    assert "+    return a + b" in terminal.durabench("job", "show", job_id[:6], "--patch")
    assert "has ended: it is done" in terminal.refused("job", "cancel", job_id)
    revised = terminal.durabench("job", "revise", job_id, "Add a test.")
    assert ": done, not tested: nothing was changed" in revised  # it repairs what is repaired
    assert len(forge.branches(NAME)) == 2

    terminal.durabench("job", NAME, "Add it.", "-x", file, "-e", "host", "--approve")
    [waiting] = [row for row in terminal.lake.all_shared("jobs") if row["state"] == "waiting"]
    printed = terminal.durabench("job", "cancel", waiting["job_id"])
    assert f"job {waiting['job_id']} is cancelled" in printed


@pytest.mark.journey("pipeline run", "pipeline runs", "pipeline show")
def test_a_stopped_pipeline_says_why(terminal: Terminal, forge: Forge) -> None:
    """The run and its step are cancelled with the reason, and the same run continues."""
    mark = terminal.folder / "mark"
    declared = pipeline(
        step("wait", f"test -e {mark} || {{ touch {mark}; sleep 600; }}; {REPAIR}"),
        step("notes", "echo a >NOTES.md", "wait"),
    )
    file = terminal.write("wait.yaml", declared.model_dump(mode="json"))
    running = terminal.begin("pipeline", "run", file)
    try:
        wait_until(mark.exists, seconds=200)
    finally:
        running.send_signal(signal.SIGINT)
        running.wait(timeout=120)
    [row] = [each for each in terminal.lake.all_shared("jobs") if each["pipeline"]]
    listed = terminal.durabench("pipeline", "runs")
    assert ("cancelled" in listed, "cut off after" in listed) == (True, True)
    shown = terminal.durabench("pipeline", "show", row["job_id"])
    assert f"`durabench pipeline run FILE --run {row['job_id']}`" in shown
    assert [line.split()[3] for line in shown.splitlines() if " wait " in line] == ["cancelled"]
    assert forge.pulls[NAME] == []
    terminal.durabench("pipeline", "run", file, "--run", row["job_id"])
    assert len(forge.pulls[NAME]) == 1


@pytest.mark.journey(
    *("pipeline check", "pipeline run", "pipeline runs", "pipeline show"),
    *("pipeline deploy", "pipeline delete", "setup"),
)
def test_a_pipeline_builds_on_what_is_approved(
    terminal: Terminal, forge: Forge, prefect_server: PrefectServer
) -> None:
    """Its first step waits, and approving that leads to the pull request of both."""
    steps = (step("fix", REPAIR, approval=True), step("notes", "echo a >NOTES.md", "fix"))
    declared = pipeline(*steps)
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
    assert "| notes | done | nothing broke | notes |" in shown

    terminal.durabench("setup")
    prefect_server.prefect("deploy", "--name", "pipeline")
    assert "is deployed" in terminal.durabench("pipeline", "deploy", file)
    assert "is deleted; its runs stay" in terminal.durabench("pipeline", "delete", "release")
