"""The pages in a browser: accessible at two widths, by keyboard, and live."""

import fcntl
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.flows.jobs.service.recording import DONE, Worker, filed, with_experiment
from tests.flows.jobs.service.test_pipelines import begun, definition
from tests.servers.browser import Browser
from tests.servers.service import TOKEN, Service

pytestmark = [pytest.mark.full, pytest.mark.slow, pytest.mark.timeout(600)]

AXE = "4.14.1"
WIDTHS = (390, 1280)
DONE_JOB, LIVE_JOB, WAITING_JOB, RUN = "b0b0b0b001", "b0b0b0b002", "b0b0b0b003", "b0b0b0b004"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory, server: Service) -> Iterator[Browser]:
    """Yield a browser that has signed in, which all tests share."""
    with Browser(tmp_path_factory.mktemp("browser")) as browser:
        browser.open(f"{server.url}/sign-in")
        browser.value(f"document.getElementById('token').value = {json.dumps(TOKEN)}")
        browser.value("document.querySelector('form').submit()")
        browser.wait_for("location.pathname == '/ui/jobs'")
        yield browser


@pytest.fixture(scope="module")
def axe() -> str:
    """Return the program that checks pages, which npm installs once on this machine."""
    if shutil.which("npm") is None:
        pytest.skip("axe-core is installed with npm, and there is none")
    folder = Path(tempfile.gettempdir()) / f"durabench-test-axe-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    file = folder / "node_modules" / "axe-core" / "axe.min.js"
    with (folder / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.exists():
            command = ["npm", "install", "--no-audit", "--no-fund", f"axe-core@{AXE}"]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
            if done.returncode:
                pytest.skip(f"npm cannot install axe-core: {done.stderr[-300:]}")
    return file.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def paths(server: Service) -> dict[str, str]:
    """Return the paths of pages with every kind of content, by their names."""
    filed(server.lake, DONE_JOB, **DONE)
    filed(server.lake, LIVE_JOB)
    worker = Worker(server.lake, LIVE_JOB)
    worker.command("ls")
    worker.call("I look.", 0.5)
    filed(server.lake, WAITING_JOB, **{**DONE, "state": "waiting"})
    defined = server.post("/pipelines", definition())
    begun(server.lake, defined, RUN)
    with_experiment(server.lake)
    return {
        "jobs": "/ui/jobs",
        "new": "/ui/new",
        "done": f"/ui/jobs/{DONE_JOB}",
        "live": f"/ui/jobs/{LIVE_JOB}",
        "waiting": f"/ui/jobs/{WAITING_JOB}",
        "pipelines": "/ui/pipelines",
        "new pipeline": "/ui/new-pipeline",
        "pipeline": f"/ui/pipelines/{defined['name']}",
        "run": f"/ui/runs/{RUN}",
        "experiments": "/ui/experiments",
        "experiment": "/ui/experiments/legacy",
        "problem": "/ui/jobs/0000000000",
        "sign-in": "/sign-in",
    }


@pytest.mark.parametrize("width", WIDTHS)
def test_every_page_is_accessible_and_fits(
    width: int, browser: Browser, axe: str, server: Service, paths: dict[str, str]
) -> None:
    """axe finds nothing, and nothing but tables and drawings is wider than the window."""
    found = {}
    for name, path in paths.items():
        browser.open(f"{server.url}{path}", width)
        browser.value(f"{axe};true")
        violations = json.loads(
            browser.value("axe.run().then((found) => JSON.stringify(found.violations))")
        )
        found[name] = [(each["id"], each["nodes"][0]["html"]) for each in violations]
        assert browser.value("document.documentElement.scrollWidth") <= width, name
    assert found == {name: [] for name in paths}


@pytest.mark.parametrize("width", WIDTHS)
def test_a_long_reason_leaves_room_for_the_task(
    width: int, browser: Browser, server: Service
) -> None:
    """A failed job in the list has its reason below, as wide as the table."""
    job_id, reason = uuid4().hex[:10], "the forge refuses the push of this branch " * 10
    filed(server.lake, job_id, state="failed", detail=reason)
    browser.open(f"{server.url}/ui/jobs?text={job_id}", width)
    own = f"document.getElementById('job-{job_id}').closest('tr')"
    share = "getBoundingClientRect().width / document.querySelector('.jobs').clientWidth"
    assert browser.value(f"{own}.firstElementChild.{share}") > 0.3
    assert browser.value(f"{own}.nextElementSibling.firstElementChild.{share}") > 0.9
    scrolled = "document.querySelector('.scroll')"
    assert browser.value(f"{scrolled}.scrollWidth <= {scrolled}.clientWidth")


def test_the_page_of_a_job_says_what_it_prepares(browser: Browser, server: Service) -> None:
    """Each line of the preparation replaces the one before."""
    job_id = uuid4().hex[:10]
    filed(server.lake, job_id)
    Worker(server.lake, job_id)
    browser.open(f"{server.url}/ui/jobs/{job_id}")
    for work in ("building the image", "running the tests at the base commit"):
        filed(server.lake, job_id, detail=work)
        browser.wait_for(f"document.getElementById('state').textContent.includes('{work}')")


def test_the_log_of_a_job_grows_also_after_a_restart(browser: Browser, server: Service) -> None:
    """The cost runs along, no step is shown twice, and the end shows the patch."""
    job_id = uuid4().hex[:10]
    filed(server.lake, job_id)
    worker = Worker(server.lake, job_id)
    worker.call("One.", 0.5)
    browser.open(f"{server.url}/ui/jobs/{job_id}")
    steps = "document.querySelectorAll('#steps > li').length"
    assert browser.value(steps) == 1
    browser.wait_for("document.getElementById('connection').textContent == 'Following the job.'")
    worker.call("Two.", 0.25)
    browser.wait_for(f"{steps} == 2")
    assert browser.value("document.getElementById('cost').textContent") == "$0.75"
    assert browser.value("document.getElementById('calls').textContent") == "2"
    server.stop()
    browser.wait_for("document.getElementById('connection').textContent.includes('lost')")
    worker.command("three")
    server.start()
    browser.wait_for(f"{steps} == 3")
    filed(server.lake, job_id, **DONE)
    browser.wait_for("document.querySelectorAll('#patch .added').length == 1")
    browser.wait_for("document.getElementById('connection').textContent == 'The job has ended.'")
    assert browser.value(steps) == 3
