"""`durabench setup`, and the findings of `doctor` on a server, against real servers."""

import asyncio
import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from prefect.blocks.notifications import CustomWebhookNotificationBlock
from prefect.client.orchestration import get_client
from prefect.events import Event
from prefect.settings import PREFECT_API_URL, Settings, temporary_settings

from flows.operation import checks
from flows.server import settings, setup
from flows.server.engine import COMMAND
from flows.server.settings import CELLS
from flows.server.setup import SetupRequest
from flows.server.stopping import PAUSED
from flows.storage import journals
from tests.operation import running as programs
from tests.servers.prefect_server import PrefectServer
from tests.servers.webhook import webhook

pytestmark = [pytest.mark.slow]

ACTION_S = 60.0
"""Time limit for an automation to act."""


@pytest.fixture
def server(prefect_server: PrefectServer) -> Iterator[PrefectServer]:
    """Yield the server, and make it the server of this process."""
    with temporary_settings({PREFECT_API_URL: prefect_server.url}):
        yield prefect_server


def automations(server: PrefectServer) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = server.post("/automations/filter", {})
    return sorted(found, key=lambda automation: str(automation["name"]))


@pytest.fixture
def bare(server: PrefectServer) -> PrefectServer:
    """Remove what other suites that share the server have made there. Return the server."""
    for deployment in server.post("/deployments/filter", {}):
        server.delete(f"/deployments/{deployment['id']}")
    for pool in server.post("/work_pools/filter", {}):
        server.delete(f"/work_pools/{pool['name']}")
    for automation in automations(server):
        server.delete(f"/automations/{automation['id']}")
    return server


wait_until = partial(programs.wait_until, seconds=ACTION_S)


def send(server: PrefectServer, event: Event) -> None:
    """Send an event as any client does."""
    server.post("/events", [event.model_dump(mode="json")])


async def test_setup_is_idempotent_and_keeps_the_choices_of_the_operator(
    bare: PrefectServer,
) -> None:
    """Setup creates pool, queues, limit and automations. A second run changes and prints only what
    it is asked to, and keeps the operator's choices."""
    server = bare
    first = server.run("durabench", "setup", "--cells", "7")
    assert first.returncode == 0, first.stderr
    assert "made     work queue cells\nmade     work queue benchmarks\n" in first.stdout
    queues = server.post("/work_pools/durabench/queues/filter", {})
    priorities = {queue["name"]: queue["priority"] for queue in queues}
    assert priorities["cells"] < priorities["benchmarks"]
    made = automations(server)
    assert [automation["enabled"] for automation in made] == [True, True, False]
    pool = server.get("/work_pools/durabench")
    assert pool["type"] == "process"
    command = pool["base_job_template"]["variables"]["properties"]["command"]
    assert command["default"] == COMMAND
    assert server.get(f"/v2/concurrency_limits/{CELLS}")["limit"] == 7

    assert await setup.set_up(SetupRequest()) == []
    assert automations(server) == made

    pause = next(each for each in made if not each["enabled"])
    server.patch(f"/automations/{pause['id']}", {"enabled": True})
    assert await setup.set_up(SetupRequest(cells=9)) == [
        f"updated  global concurrency limit {CELLS}: 9 cells at the same time"
    ]
    assert all(automation["enabled"] for automation in automations(server))
    assert server.get(f"/v2/concurrency_limits/{CELLS}")["limit"] == 9
    server.patch(f"/automations/{pause['id']}", {"enabled": False})

    command["default"] = None  # as in a pool of an earlier release
    server.patch("/work_pools/durabench", {"base_job_template": pool["base_job_template"]})
    [line] = await setup.set_up(SetupRequest())
    assert line.startswith("updated  work pool durabench: ")
    assert await setup.set_up(SetupRequest()) == []


@pytest.mark.full
async def test_setups_at_the_same_moment_create_everything_once(bare: PrefectServer) -> None:
    """Each finds nothing, and what another has created by then is no error."""
    request = SetupRequest()
    await asyncio.gather(*(setup.set_up(request) for _ in range(4)))
    assert [each["name"] for each in automations(bare)] == [
        "durabench: dead flow runs are Crashed",
        "durabench: dead jobs begin again",
        "durabench: pause the pool when infrastructure breaks",
    ]
    assert await setup.set_up(request) == []


def watched(server: PrefectServer) -> set[str]:
    """Return the ids of the flow runs whose heartbeats the automations of a server have noticed."""
    with closing(sqlite3.connect(server.home / "prefect.db")) as database:
        keys = database.execute("SELECT bucketing_key FROM automation_bucket").fetchall()
    return {part.removeprefix("prefect.flow-run.") for (key,) in keys for part in json.loads(key)}


@pytest.mark.full
async def test_a_flow_run_without_heartbeats_is_crashed(server: PrefectServer) -> None:
    """A flow run whose heartbeats cease becomes Crashed, and that of a job begins again. One that
    has reported its end does not."""
    await setup.set_up(SetupRequest(zombie_s=10))
    flow = server.post("/flows/", {"name": "solve"})["id"]

    def tell(run: str, event: str, tag: str = "durabench") -> None:
        of_tag = {
            "prefect.resource.id": f"prefect.tag.{tag}",
            "prefect.resource.role": "tag",
        }
        resource = {"prefect.resource.id": f"prefect.flow-run.{run}"}
        send(server, Event(event=event, resource=resource, related=[of_tag]))

    def run_with_heartbeat(tag: str = "durabench") -> str:
        asked = {"flow_id": flow, "tags": [tag], "state": {"type": "RUNNING"}}
        made: str = server.post("/flow_runs/", asked)["id"]
        tell(made, "prefect.flow-run.heartbeat", tag)
        return made

    paused, job = (run_with_heartbeat(settings.JOB_TAG) for _ in range(2))
    finished, dead = (run_with_heartbeat() for _ in range(2))
    # The server may handle events of the same moment in another order.
    wait_until(lambda: {paused, finished} <= watched(server), every_s=0.1)
    tell(paused, PAUSED, settings.JOB_TAG)
    tell(finished, "prefect.flow-run.Completed")
    wait_until(lambda: server.get(f"/flow_runs/{dead}")["state_type"] == "CRASHED")
    assert "No heartbeat" in server.get(f"/flow_runs/{dead}")["state"]["message"]
    wait_until(lambda: server.get(f"/flow_runs/{job}")["state_type"] == "SCHEDULED")
    assert server.get(f"/flow_runs/{job}")["state"]["name"] == "AwaitingRetry"
    assert server.get(f"/flow_runs/{paused}")["state_type"] == "RUNNING"
    assert server.get(f"/flow_runs/{finished}")["state_type"] == "RUNNING"
    await setup.set_up(SetupRequest())


@pytest.mark.full
async def test_each_kind_of_event_is_notified_once(server: PrefectServer) -> None:
    """Many lost cells cause one message, and the end of the experiment another."""
    with webhook() as (port, received):
        block = CustomWebhookNotificationBlock(
            name="team",
            url=f"http://127.0.0.1:{port}",
            json_data={"subject": "{{subject}}", "body": "{{body}}"},
            allow_private_urls=True,
        )
        await block.save("team", overwrite=True)
        await setup.set_up(SetupRequest(notify="custom-webhook/team"))
        for name in ["cell.infrastructure"] * 3 + ["experiment.incomplete"]:
            resource = {
                "prefect.resource.id": "durabench.experiment.noted",
                "prefect.resource.name": "noted",
                "durabench.event": f"durabench.{name}",
            }
            told = Event(event=f"durabench.{name}", resource=resource, payload={"arm": "able"})
            send(server, told)
        wait_until(lambda: len(received) == 2)
        time.sleep(3)
    assert sorted(message["subject"] for message in received) == [
        "durabench.cell.infrastructure: noted",
        "durabench.experiment.incomplete: noted",
    ]
    assert "able" in received[0]["body"]
    async with get_client() as client:
        [automation] = await client.read_automations_by_name("durabench: tell people")
        await client.delete_automation(UUID(str(automation.id)))


@pytest.mark.full
def test_setup_names_what_is_missing(server: PrefectServer, tmp_path: Path) -> None:
    """An unset server address and an unknown block are wrong usage; an unreachable server is
    infrastructure. Each is one line."""
    unknown = server.run("durabench", "setup", "--notify", "slack-webhook/missing")
    assert (unknown.returncode, unknown.stderr.count("\n")) == (2, 1)
    assert "no block slack-webhook/missing" in unknown.stderr
    for url, code, words in [("", 2, "PREFECT_API_URL"), ("http://127.0.0.1:9/api", 3, "answer")]:
        environment = {"PREFECT_API_URL": url, "PREFECT_HOME": str(tmp_path)}
        done = server.run("durabench", "setup", **environment)
        assert (done.returncode, done.stderr.count("\n")) == (code, 1), done.stderr
        assert words in done.stderr


def test_the_settings_are_what_doctor_looks_for(
    server: PrefectServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`doctor` accepts a server with the settings that `setup` writes, and finds all of them
    lacking in Prefect's defaults."""
    written = tmp_path / "server.env"
    setup.write_settings(written)
    assert "TASK_RUN_RECORDER_BATCH_SIZE=500" in written.read_text()
    said = server.run("durabench", "doctor").stdout
    assert f"ok       Prefect API {server.url}" in said
    assert "lacks" not in said

    lines = [line for line in written.read_text().splitlines() if not line.startswith("#")]
    names = [line.split("=")[0] for line in lines]
    for name in names:
        monkeypatch.delenv(name, raising=False)
    by_default = Settings().model_dump(mode="json")
    assert [settings.CLIENTS, settings.AUTHENTICATION, *settings.lacking(by_default)] == names
    missing = settings.missing_lines(by_default, is_open=True)
    assert [line.split("=")[0] for line in missing] == names[1:]
    assert missing[1:] == lines[2:]
    commented = written.read_text()
    for name in (
        "PREFECT_SERVER_API_PORT",
        "PREFECT_SERVER_UI_API_URL",
        "PREFECT_SERVER_ANALYTICS_ENABLED",
        "PREFECT_WORKER_QUERY_SECONDS",
    ):
        assert f"{name}=" in commented


@pytest.mark.full
def test_doctor_warns_of_a_server_too_small_for_several_workers(bare: PrefectServer) -> None:
    """With two workers, `doctor` warns of a server on SQLite, missing deployments and slow
    polling."""
    server = bare
    assert server.run("durabench", "setup").returncode == 0
    for name in ("one", "two"):
        server.post("/work_pools/durabench/workers/heartbeat", {"name": name})
    said = server.run("durabench", "doctor").stdout
    assert "SQLite is for one" in said
    assert "ok       2 workers of pool durabench online" in said
    assert "no deployment benchmark/benchmark, benchmark/smoke, solve/solve, shard/shard, " in said
    assert "polls for cells every 10 s: set PREFECT_WORKER_QUERY_SECONDS=2" in said
    for queue in ("cells", "benchmarks"):
        assert f"no worker takes flow runs from work queue {queue}: start one with" in said
    quick = server.run("durabench", "doctor", PREFECT_WORKER_QUERY_SECONDS="2").stdout
    assert "PREFECT_WORKER_QUERY_SECONDS" not in quick
    driver = {"server": {"database": {"driver": "postgresql+asyncpg"}}}
    assert settings.database(driver) == "postgresql"


def test_another_version_and_a_misdirected_ui_are_noted() -> None:
    """A server of another version and a UI that uses another API address are noted; matching ones
    are not."""
    import prefect

    [version] = checks.version_notes("3.0.0")
    assert (version.level, "the Prefect server is 3.0.0" in version.what) == ("note", True)
    assert checks.version_notes(prefect.__version__) == []
    pages = {"server": {"ui": {"api_url": "http://127.0.0.1:4200/api"}}}
    at = "http://127.0.0.1:{}/api"
    assert settings.find_wrong_ui_port(pages, at.format(4711)) == at.format(4200)
    assert settings.find_wrong_ui_port(pages, at.format(4200)) is None


@pytest.mark.parametrize("database", [None, "postgresql+psycopg://journal.invalid/durabench"])
async def test_doctor_wants_one_journal_for_several_machines(
    monkeypatch: pytest.MonkeyPatch, database: str | None
) -> None:
    """With a server on another machine, a SQLite journal is noted. That the server does not answer
    is a problem."""
    monkeypatch.delenv(journals.VARIABLE, raising=False)
    if database:
        monkeypatch.setenv(journals.VARIABLE, database)
    with temporary_settings({PREFECT_API_URL: "http://prefect.invalid/api"}):
        found = await checks.check_server()
    assert [finding.level for finding in found] == ["problem"] + ["note"] * (database is None)
    assert "does not answer" in found[0].what


@pytest.mark.parametrize(
    ("url", "local"),
    [
        (None, True),
        ("http://127.0.0.1:4200/api", True),
        ("http://localhost:4200/api", True),
        ("http://[::1]:4200/api", True),
        ("https://prefect.example.org/api", False),
        ("http://10.0.0.5:4200/api", False),
    ],
)
def test_which_servers_are_on_this_machine(url: str | None, local: bool) -> None:
    """Only a loopback address counts as this machine, where a link to a file can be opened."""
    assert settings.is_local(url) is local
