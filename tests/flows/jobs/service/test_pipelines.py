"""Pipelines over HTTP: definitions are deployments, and runs have steps."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from flows.jobs import rows, runs
from flows.jobs.approving import is_approved
from flows.jobs.definition import Pipeline
from flows.storage.lake import Lake
from tests.flows.jobs.service.conftest import deploy
from tests.flows.jobs.service.recording import DONE
from tests.flows.jobs.service.test_service import page
from tests.servers.prefect_server import PrefectServer
from tests.servers.service import Service

STEPS = [
    {"name": "fix-it", "task": "Fix it."},
    {"name": "add_notes", "task": "Add notes.", "approval": True},
    {
        "name": "both",
        "task": "Use {{steps.fix-it.output.files}} <now>.",
        "depends_on": ["fix-it", "add_notes"],
    },
]


def definition(**changes: Any) -> dict[str, Any]:
    """Return a definition with a new name, as a client sends it."""
    name = f"release-{uuid4().hex[:6]}"
    known = {"name": name, "source": "octo/demo", "model": "openai/gpt-5", "arms": ["mini"]}
    return {**known, "title": "A release", "steps": STEPS, **changes}


@pytest.fixture
def defined(server: Service) -> dict[str, Any]:
    """Return a deployed definition."""
    answer: dict[str, Any] = server.post("/pipelines", definition())
    return answer


def begun(lake: Path, defined: dict[str, Any], run: str) -> None:
    """Write the rows of a run with an ended first step and a waiting second step."""
    content = {name: value for name, value in defined.items() if name not in ("id", "layers")}
    pipeline = Pipeline.model_validate(content)
    store = Lake.existing(str(lake))
    base = {"base_commit": "0" * 40, "base_branch": "main", "image": "", "statement": "s"}
    known = {**base, "source": "https://forge.example/octo/demo.git", "repo": "octo/demo"}
    whole = rows.new(runs.request_of_run(pipeline, run), **known, title="A release")
    rows.update(store, whole, pipeline=pipeline.model_dump_json(), state="waiting",
                verification=json.dumps({"steps": []}))  # fmt: skip
    for step, changes in zip(
        pipeline.ordered[:2], (DONE, {**DONE, "state": "waiting"}), strict=True
    ):
        request = runs.request_of_step(pipeline, step, run, step.task, "0" * 40)
        row = rows.new(request, **known, title=step.task)
        evidence = {"run": run, "step": step.name, "pull_request": None, "branch": None}
        rows.update(store, row, **{**changes, **evidence})


def test_a_definition_is_deployed_listed_and_deleted(server: Service) -> None:
    """It is found by its name and by its id, with its layers."""
    wanted = definition()
    made = server.post("/pipelines", wanted)
    assert made["layers"] == [["fix-it", "add_notes"], ["both"]]
    for name in (made["id"], wanted["name"]):
        assert server.get(f"/pipelines/{name}") == made
    assert made in server.get("/pipelines")["pipelines"]
    answer = server.client.delete(f"/pipelines/{made['id']}")
    assert answer.json() == {"id": made["id"], "name": wanted["name"], "deleted": True}
    assert server.refusal("GET", f"/pipelines/{made['id']}")[0] == 404


def test_a_definition_of_another_version_hides_no_other(
    server: Service, prefect_server: PrefectServer, defined: dict[str, Any]
) -> None:
    """The lists say why it cannot be read, a request for it is refused, and it can be deleted."""
    old = server.post("/pipelines", definition())
    content = {name: value for name, value in old.items() if name not in ("id", "layers")}
    given = {"definition": {**content, "retired": True}}
    unchecked = {"parameters": given, "enforce_parameter_schema": False}
    prefect_server.patch(f"/deployments/{old['id']}", unchecked)
    listed = {each["name"]: each for each in server.get("/pipelines")["pipelines"]}
    assert listed[defined["name"]] == defined
    assert listed[old["name"]]["problem"].startswith(f"pipeline {old['name']}: retired")
    assert "retired" in page(server, "/ui/pipelines")
    status, message = server.refusal("POST", f"/pipelines/{old['id']}/run")
    assert (status, message) == (422, listed[old["name"]]["problem"])
    assert server.client.delete(f"/pipelines/{old['name']}").status_code == 200


def test_a_run_is_ordered_and_listed(server: Service, defined: dict[str, Any]) -> None:
    """It is there before a worker takes it. A repeated key orders nothing."""
    path = f"/pipelines/{defined['id']}/run"
    key = {"Idempotency-Key": uuid4().hex}
    first, again = (server.post(path, headers=key) for _ in range(2))
    assert (first["id"], first["state"]) == (again["id"], "scheduled")
    listed = server.get(f"/pipelines/{defined['name']}/runs")["runs"]
    assert [run["id"] for run in listed] == [first["id"]]
    assert server.get(f"/runs/{first['flow_run_id']}")["id"] == first["id"]
    cancelled = server.post(f"/runs/{first['id']}/cancel")
    assert cancelled["state"] == "cancelled"


def test_a_pipeline_without_a_work_pool_is_run_by_the_flow(
    server: Service, prefect_server: PrefectServer
) -> None:
    """`serve-flows` has no pool, and no schedules of definitions."""
    asyncio.run(deploy(prefect_server, None))
    try:
        made = server.post("/pipelines", definition(name="Full CI"))
        assert (made["name"], made["title"]) == ("full-ci", "A release")
        run = server.post("/pipelines/full-ci/run")
        listed = server.get("/pipelines/full-ci/runs")["runs"]
        assert [each["id"] for each in listed] == [run["id"]]
        ordered = server.server.get(f"/flow_runs/{run['flow_run_id']}")
        assert ordered["parameters"]["definition"]["name"] == "full-ci"
        assert ordered["deployment_id"] != made["id"]
        schedule = definition(schedule={"cron": "0 4 * * *"})
        status, said = server.refusal("POST", "/pipelines", json=schedule)
        assert (status, "needs a work pool" in said) == (422, True)
    finally:
        asyncio.run(deploy(prefect_server))


def test_a_run_has_its_steps_and_one_that_waits_is_approved(
    server: Service, defined: dict[str, Any]
) -> None:
    """The approval continues the run with that step."""
    run = uuid4().hex[:10]
    begun(server.lake, defined, run)
    shown = server.get(f"/runs/{run}")
    assert [(step["name"], step["state"]) for step in shown["steps"]] == [
        ("fix-it", "done"),
        ("add_notes", "waiting"),
        ("both", "pending"),
    ]
    assert (shown["pipeline"], shown["state"]) == (defined["name"], "waiting")
    job = shown["steps"][1]["job"]
    server.post(f"/jobs/{job}/approve")
    [ordered] = server.server.post("/flow_runs/filter", {"flow_runs": {"name": {"like_": run}}})
    assert is_approved(Lake.existing(str(server.lake)), {"job_id": job, **DONE})
    assert ordered["parameters"]["run"] == run
    assert job not in [each["id"] for each in server.get("/jobs?limit=1000")["jobs"]]
    server.client.delete(f"/pipelines/{defined['name']}")
    listed = server.get(f"/pipelines/{defined['name']}/runs")["runs"]
    assert [each["id"] for each in listed] == [run]
    assert server.refusal("POST", f"/jobs/{job}/revise", json={"text": "x"})[0] == 409


def test_the_pages_of_a_pipeline_draw_its_steps(server: Service, defined: dict[str, Any]) -> None:
    """Each step of the drawing leads to its panel, and a run shows the states."""
    run = uuid4().hex[:10]
    begun(server.lake, defined, run)
    shown = page(server, f"/ui/pipelines/{defined['name']}")
    for name in ("fix-it", "add_notes", "both"):
        assert f'href="#step-{name}"' in shown
        assert f'id="step-{name}"' in shown
    assert "&lt;now&gt;" in shown
    assert f'href="/ui/runs/{run}"' in shown
    of_run = page(server, f"/ui/runs/{run}")
    assert re.search(r"add_notes <span [^>]*>waiting", of_run)
    assert "Approve add_notes" in of_run
    assert defined["name"] in page(server, "/ui/pipelines")


def test_a_form_defines_a_pipeline(server: Service) -> None:
    """A refused definition is shown again with the reason."""
    example = page(server, "/ui/new-pipeline")
    assert "simplify-types" in example
    wanted = definition()
    done = server.client.post("/ui/new-pipeline", data={"definition": json.dumps(wanted)})
    assert done.headers["location"] == f"/ui/pipelines/{wanted['name']}"
    refused = server.client.post("/ui/new-pipeline", data={"definition": "steps: [<b>"})
    assert refused.status_code == 422
    assert "steps: [&lt;b&gt;" in refused.text
