"""A server with a worker: one cell in every way there is, and automations for its events."""

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prefect.blocks.notifications import CustomWebhookNotificationBlock
from prefect.settings import PREFECT_API_URL, temporary_settings

from eval import instances
from tests.agent.repositories import with_files
from tests.journeys.command_line import Terminal
from tests.operation.running import QUICK, wait_until
from tests.servers import openai_server as api
from tests.servers.openai_server import OpenAIServer
from tests.servers.prefect_server import ROOT, PrefectServer
from tests.servers.webhook import webhook
from tests.timing import as_variables

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

INSTANCE = instances.load("bundled")[0].instance_id
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && git diff"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrefectServer]:
    """Yield a prepared server with a worker, neither of which has a key."""
    with PrefectServer.prepared(tmp_path_factory.mktemp("installation")) as server:
        for name in [name for name in server.environment if "API_KEY" in name]:
            del server.environment[name]
        server.environment |= QUICK
        with server.worker():
            yield server


@pytest.fixture
def terminal(tmp_path: Path, server: PrefectServer) -> Terminal:
    """Return a terminal of a user with this server, and the lake of its worker."""
    names = ("PREFECT_API_URL", "DURABENCH_LAKE", *QUICK)
    return Terminal(tmp_path, {name: server.environment[name] for name in names})


@pytest.fixture
def model() -> Iterator[OpenAIServer]:
    """Yield a model that looks around and submits."""
    with OpenAIServer(api.by_turn([api.command("ls"), api.command(SUBMIT)])) as model:
        yield model


def declare(name: str, model: OpenAIServer, **changes: Any) -> dict[str, Any]:
    """Return an experiment of one cell."""
    price = {"input_cost_per_token": 1e-6, "output_cost_per_token": 2e-6}
    reached = {"name": "openai/scripted", "api_base": model.url, **price}
    return {
        "name": name,
        "environment": "host",
        "select": {"ids": [INSTANCE]},
        "arms": [{"name": "mini", "agent": "mini", "model": reached}],
        **changes,
    }


def take_requests(model: OpenAIServer) -> list[tuple[str, dict[str, str], bytes]]:
    """Return the requests since the last time: line, headers and body.

    The folder of an attempt on the host, which is in the body, has the attempt's id in its name.
    """
    requests = [
        (line, headers, re.sub(rb"/durabench-[0-9a-f-]+/", b"/durabench/", body))
        for (line, body), headers in zip(model.sent, model.request_headers, strict=True)
    ]
    model.sent.clear()
    model.request_headers.clear()
    return requests


def drop_task(
    requests: list[tuple[str, dict[str, str], bytes]],
) -> list[tuple[str, dict[str, str], dict[str, Any]]]:
    """Return requests without the conversation and its length."""
    return [
        (line, headers | {"content-length": ""}, json.loads(body) | {"messages": []})
        for line, headers, body in requests
    ]


@pytest.mark.journey("run", "debug", "job run", "chat --instance", "serve-flows")
def test_a_cell_sends_the_same_requests_wherever_it_runs(
    terminal: Terminal, server: PrefectServer, model: OpenAIServer
) -> None:
    """A run, one cell, a deployment on a worker or served, and a shard send the same bytes."""
    terminal.durabench("run", terminal.write("here.yaml", declare("here", model)))
    local = take_requests(model)
    assert [line for line, _, _ in local] == ["POST /v1/chat/completions"] * 2
    assert not [headers for _, headers, _ in local if "authorization" in headers]

    terminal.durabench("debug", INSTANCE, "-x", "here.yaml", "--arm", "mini")
    assert take_requests(model) == local

    project = terminal.folder / "project"
    with_files({"a.txt": "hello"})(project)
    job = ("job", "run", str(project), "Say hello.", "-x", "here.yaml", "-e", "host")
    assert "nothing was changed" in terminal.durabench(*job, "--verify", "none")
    assert drop_task(take_requests(model)) == drop_task(local)

    deployed = json.dumps({"experiment": declare("deployed", model)})
    run = ("deployment", "run", "benchmark/benchmark", "--watch")
    server.prefect(*run, "--params", deployed)
    assert take_requests(model) == local

    spread = declare("spread", model, execution="distributed")
    terminal.durabench("run", terminal.write("spread.yaml", spread))
    assert take_requests(model) == local

    serving = terminal.begin("serve-flows", "--replace")
    try:
        where = "/deployments/name/benchmark/benchmark"
        wait_until(lambda: server.get(where)["work_pool_name"] is None)
        server.prefect(*run, "--params", json.dumps({"experiment": declare("served", model)}))
    finally:
        serving.send_signal(signal.SIGINT)
        serving.wait(60)
        server.prefect("deploy", "--all")
    assert take_requests(model) == local

    terminal.variables.update(as_variables(idle_s=0.0))
    with OpenAIServer(lambda _: api.text("Done.")) as other:
        talk = declare("talk", other)
        talk["arms"][0] |= {"agent": "loop", "options": {"interactive": True}}
        file = terminal.write("talk.yaml", talk)
        terminal.durabench("chat", "--instance", INSTANCE, "-x", file, "-e", "host")
        [(line, headers, _)] = take_requests(other)
    own = {"host", "content-length"}
    assert (line, {name: headers[name] for name in headers.keys() - own}) == (
        local[0][0],
        {name: local[0][1][name] for name in local[0][1].keys() - own},
    )


@pytest.mark.journey("run")
def test_the_automations_of_the_page_act(
    terminal: Terminal, server: PrefectServer, model: OpenAIServer
) -> None:
    """A worker reports on the experiment of an event, and a webhook gets the missed gate."""
    with webhook() as (port, received):
        with temporary_settings({PREFECT_API_URL: server.url}):
            block = CustomWebhookNotificationBlock(
                name="team",
                url=f"http://127.0.0.1:{port}",
                json_data={"subject": "{{subject}}", "body": "{{body}}"},
            )
            block_id = block.save("team", overwrite=True)
        text = (ROOT / "flows" / "operation" / "automations.yaml").read_text()
        deployment = server.get("/deployments/name/report/report")
        assert deployment["id"] in server.prefect("deployment", "inspect", "report/report")
        assert str(block_id) in server.prefect("block", "inspect", "custom-webhook/team")
        text = text.replace("REPORT_DEPLOYMENT_ID", deployment["id"])
        text = text.replace("NOTIFICATION_BLOCK_ID", str(block_id))
        file = terminal.folder / "automations.yaml"
        file.write_text(text)
        server.prefect("automation", "create", "--from-file", str(file))

        gate = {"gates": {"mini": {"resolved": ">= 0.5"}}, "budgets": {"experiment": {"calls": 4}}}
        declared = terminal.write("worse.yaml", declare("worse", model, **gate))
        terminal.durabench("run", declared, code=1)
        wait_until(lambda: received)
        reports = {"deployments": {"id": {"any_": [deployment["id"]]}}}
        wait_until(
            lambda: (
                [
                    (run["name"], run["state"]["type"])
                    for run in server.post("/flow_runs/filter", reports)
                ]
                == [("report worse", "COMPLETED")]
            )
        )
    [message] = received
    assert message["subject"] == "worse has become worse"
    assert message["body"].startswith("mini: resolved is 0.0 %, not >= 0.5. Report: ")
