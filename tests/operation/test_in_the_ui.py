"""A distributed benchmark in the pages of Prefect, at a port other than 4200."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from tests.operation.running import begin, expect, report, shards
from tests.servers.browser import Browser
from tests.servers.prefect_server import CREDENTIALS, PrefectServer

pytestmark = [pytest.mark.full, pytest.mark.slow, pytest.mark.timeout(900)]

NAME = "shown"


class Pages:
    """The pages of a server in a browser."""

    def __init__(self, server: PrefectServer, browser: Browser) -> None:
        self._root, self._browser = server.url.removesuffix("/api"), browser
        browser.open(self._root)
        # Where the pages keep what their form for the password was told.
        browser.value(f"localStorage.setItem('prefect-password', btoa({json.dumps(CREDENTIALS)}))")

    def open(self, path: str, *words: str) -> str:
        """Open a page, and return its text once it has all of these words."""
        self._browser.open(f"{self._root}{path}")
        self._wait_for(words)
        return str(self._browser.value("document.body.innerText"))

    def choose(self, tab: str, *words: str) -> None:
        """Choose a tab of the open page, and wait until the page has all of these words."""
        tabs = "[...document.querySelectorAll('[role=tab], .p-tab')]"
        chosen = f"{tabs}.find(each => each.innerText.trim() == {json.dumps(tab)})"
        self._browser.wait_for(f"{chosen} && ({chosen}.click(), true)")
        self._wait_for(words)

    def _wait_for(self, words: Sequence[str]) -> None:
        there = f"{json.dumps(words)}.every(each => document.body.innerText.includes(each))"
        self._browser.wait_for(there, seconds=120)


@pytest.fixture
def pages(server: PrefectServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    """Yield the pages in a browser of this test."""
    with Browser(tmp_path_factory.mktemp("browser")) as browser:
        yield Pages(server, browser)


def the_run(server: PrefectServer) -> dict[str, Any]:
    """Return the flow run of the benchmark."""
    [run] = server.post("/flow_runs/filter", {"flow_runs": {"name": {"any_": [NAME]}}})
    found: dict[str, Any] = run
    return found


@pytest.mark.usefixtures("workers")
def test_a_benchmark_can_be_watched_in_a_browser(server: PrefectServer, pages: Pages) -> None:
    """The benchmark shows its verdicts, shards and artifacts, a shard its cells and their steps,
    and the form of the deployment the fields of an experiment in order."""
    expect(server, begin(server, name=NAME, select={"sample": 1}))
    [instance] = {cell.instance_id for cell in report(server, NAME).cells}
    verdicts = [f"mini · {instance}: resolved", f"null · {instance}: unresolved"]
    pages.open(f"/runs/flow-run/{the_run(server)['id']}", NAME, "Completed", *verdicts)
    shard = next(run for run in shards(server, NAME) if "resolved" in run["state"]["message"])
    pages.choose("Artifacts", "report", "progress")
    pages.open(f"/runs/flow-run/{shard['id']}", shard["name"], "Parent Run", "submitted")
    pages.choose("Task Runs", instance)
    [form] = [d for d in server.post("/deployments/filter", {}) if d["name"] == "benchmark"]
    shown = pages.open(f"/deployments/deployment/{form['id']}/run", "name of the results", "Arms")
    fields = ["Dataset", "Select", "Arms", "Repeats", "Concurrency", "Budgets"]
    form_begins = shown.index("name of the results")
    places = [shown.index(f"\n{field}", form_begins) for field in fields]
    assert places == sorted(places)
