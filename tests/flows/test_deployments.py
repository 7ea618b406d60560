"""The deployments as an operator uses them: a server, a pool, a worker, the prefect command."""

import functools
import importlib
import json
import signal
from typing import Any

import jsonschema
import pytest
import yaml
from prefect.utilities import schema_tools
from prefect.utilities.callables import parameter_schema
from prefect.utilities.schema_tools import ValidationError

from agent.arms import ARMS
from flows.benchmark import benchmark
from flows.display.errors import UsageError
from flows.experiments import declaration
from flows.experiments.declaration import Experiment
from flows.grade import grade
from flows.jobs.chat import chat
from flows.jobs.job import job
from flows.jobs.pipeline import pipeline
from flows.report import report
from flows.server.artifacts import artifact_key
from flows.server.settings import JOB_TAG
from flows.shard import shard
from flows.solve import solve
from flows.storage import journals, report_files
from flows.storage.lake import Lake
from tests.operation.running import online, shards, wait_until
from tests.servers.prefect_server import ROOT, PrefectServer

FLOWS = {
    "benchmark": benchmark,
    "solve": solve,
    "shard": shard,
    "job": job,
    "pipeline": pipeline,
    "chat": chat,
    "grade": grade,
    "report": report,
}


def declared() -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((ROOT / "prefect.yaml").read_text())
    return {each["name"]: each for each in content["deployments"]}


@functools.cache
def schema(name: str) -> dict[str, Any]:
    """Return the parameters of a flow as Prefect's forms get them, ready for validation."""
    made = parameter_schema(FLOWS[name].fn).model_dump(by_alias=True)
    return made | {"additionalProperties": False}


def validate(name: str, parameters: dict[str, Any]) -> None:
    jsonschema.validate(parameters, schema(name))


@pytest.mark.parametrize("name", FLOWS)
def test_every_parameter_says_what_it_is(name: str) -> None:
    """Every parameter has a title and a description, including those of an experiment's parts."""
    made = schema(name)
    for parameter, shown in made["properties"].items():
        assert shown["title"] == parameter
        assert shown.get("description") or "$ref" in shown, parameter
    silent = [
        f"{part}.{field}"
        for part in (
            "Experiment",
            "MiniOptions",
            "DurableOptions",
            "Selection",
            "Images",
            "Budget",
            "SimulatedSpec",
        )
        for field, shown in made.get("definitions", {}).get(part, {}).get("properties", {}).items()
        if not shown.get("description") and "const" not in shown and "$ref" not in shown
    ]
    assert silent == []


def test_the_schema_takes_what_an_experiment_takes() -> None:
    """The schema, the only check of Prefect's forms, accepts every experiment file."""
    for path in (ROOT / "flows" / "experiments").glob("*.yaml"):
        validate("benchmark", {"experiment": yaml.safe_load(path.read_text())})
    arms = [{"name": "mini", "agent": "mini"}]
    validate("benchmark", {"experiment": {"name": "x", "model": "openai/gpt-5", "arms": arms}})


SOLVERS = [{"name": "mini", "agent": "mini", "model": "openai/gpt-5"}]
WITHOUT_MODEL = [{"name": "mini", "agent": "mini"}]


@pytest.mark.parametrize(
    ("changes", "field", "problem"),
    [
        ({"execution": "distributed"}, "environment", "distributed workers need"),
        (
            {"execution": "distributed", "environment": "auto"},
            "environment",
            "distributed workers need",
        ),
        ({"arms": WITHOUT_MODEL}, "model", "arm 'mini' needs a model"),
        ({"arms": WITHOUT_MODEL, "model": None}, "model", "arm 'mini' needs a model"),
        (
            {"family": [{"baseline": "mini", "candidate": "gold"}]},
            "primary",
            "a family needs a primary comparison",
        ),
    ],
)
def test_a_rule_over_several_fields_is_part_of_the_schema(
    changes: dict[str, Any], field: str, problem: str
) -> None:
    """Prefect refuses the flow run and names the field, for the same experiments as the command
    line."""
    wrong = {"name": "x", "arms": SOLVERS, **changes}
    with pytest.raises(UsageError, match=problem):
        declaration.parse(wrong, "x.yaml")
    with pytest.raises(ValidationError) as refused:
        schema_tools.validate({"experiment": wrong}, schema("benchmark"), raise_on_error=True)
    assert field in str(refused.value)
    assert "not valid under any" not in str(refused.value)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"execution": "distributed", "environment": "host"},
        {"arms": WITHOUT_MODEL, "model": "openai/gpt-5"},
        {"arms": [{"name": "gold", "agent": "gold"}], "family": [], "primary": None},
        {"arms": [*SOLVERS, {"name": "b", "from": "mini", "options": {"step_limit": 3}}]},
        {"arms": [*SOLVERS, {"name": "b", "from": "mini", "model": {"name": "openai/other"}}]},
        {
            "arms": [
                {
                    "name": "durable",
                    "agent": "durable",
                    "model": {"provider": "simulated", "skill": 1},
                    "options": {"profile": {"anchor_tries": 1}},
                },
                {"name": "program", "agent": "command", "options": {"recipe": "codex"}},
            ],
            "model": "openai/gpt-5",
        },
    ],
)
def test_the_schema_refuses_nothing_that_is_valid(changes: dict[str, Any]) -> None:
    """Prefect accepts every experiment that the command line accepts."""
    valid = {"name": "x", "arms": SOLVERS, **changes}
    declaration.parse(valid, "x.yaml")
    schema_tools.validate({"experiment": valid}, schema("benchmark"), raise_on_error=True)


def test_fields_keep_their_order_without_the_order_of_keys() -> None:
    """A form sorts fields by `position`: as declared, in every part of an experiment. PostgreSQL
    sorts the keys of a schema."""
    definitions = schema("benchmark")["definitions"]
    stored = json.loads(json.dumps(definitions, sort_keys=True))
    for part, made in definitions.items():
        shown = stored[part].get("properties", {})
        in_form = sorted(shown, key=lambda name: shown[name]["position"])
        assert in_form == list(made.get("properties", {})), part
    assert list(definitions["Experiment"]["properties"]) == list(Experiment.model_fields)
    assert {"MiniOptions", "DurableOptions", "LiteLLMSpec", "Selection"} <= definitions.keys()
    [arms] = [made["properties"]["arms"]["items"] for made in [definitions["Experiment"]]]
    assert [arms["properties"][name]["position"] for name in FIELDS] == [*range(len(FIELDS))]


FIELDS = ["name", "agent", "model", "options", "from"]


def test_a_form_shows_an_arm_as_fields() -> None:
    """An arm is one kind of object with an agent to select, and the tabs of its model."""
    arm = schema("benchmark")["definitions"]["Experiment"]["properties"]["arms"]["items"]
    assert arm["type"] == "object"
    assert not arm.keys() & {"anyOf", "oneOf", "allOf"}
    assert list(arm["properties"]) == FIELDS
    assert arm["properties"]["agent"]["enum"] == list(ARMS)
    tabs = arm["properties"]["model"]["anyOf"]
    assert [tab["$ref"].rpartition("/")[2] for tab in tabs if "$ref" in tab] == [
        "LiteLLMSpec",
        "SimulatedSpec",
        "RecordedSpec",
        "ScriptedSpec",
    ]


@pytest.mark.parametrize(
    ("arm", "place", "problem"),
    [
        ({"optons": {}}, "", "'optons' was unexpected"),
        ({"agent": "nobody"}, ".agent", "'nobody' is not one of"),
        ({"agent": None}, ".agent", "None is not one of ['mini', "),
        ({"agent": "command"}, "", "'options' is a required property"),
        ({"options": {"latency_s": 1}}, ".options", "'latency_s' was unexpected"),
        ({"options": {"step_limit": 0}}, ".options.step_limit", "0 is less than the minimum of 1"),
        ({"model": {"name": "x", "latency_s": 1}}, ".model", "'latency_s' was unexpected"),
        ({"model": {"name": 1}}, ".model.name", "1 is not of type 'string'"),
        ({"model": {"provider": "x"}}, ".model.provider", "'x' is not one of ['litellm', "),
        ({"model": {"provider": "simulated", "skil": 1}}, ".model", "'skil' was unexpected"),
        (
            {"agent": "durable", "options": {"profile": {"preset": "full", "repairs": 1}}},
            ".options.profile",
            "'repairs' was unexpected",
        ),
    ],
)
def test_an_error_names_the_wrong_key(arm: dict[str, Any], place: str, problem: str) -> None:
    """A server names the field of an arm as the command line does. So does a form, at the field."""
    wrong = {"name": "x", "arms": [*SOLVERS, {**SOLVERS[0], "name": "second", **arm}]}
    with pytest.raises(UsageError):
        declaration.parse(wrong, "x.yaml")
    with pytest.raises(ValidationError) as refused:
        schema_tools.validate({"experiment": wrong}, schema("benchmark"), raise_on_error=True)
    assert f"'experiment.arms[1]{place}'" in str(refused.value)
    assert problem in str(refused.value)
    shown = schema_tools.validate({"experiment": wrong}, schema("benchmark"))
    assert f"$.experiment.arms[1]{place}" in [error.json_path for error in shown]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"concurency": 1}, "'concurency' was unexpected"),
        ({"seed": "a"}, "'a' is not of type"),
        ({"budgets": {"attempt": {"usd": -1}}}, "-1 is "),
    ],
)
def test_an_error_does_not_repeat_the_experiment(changes: dict[str, Any], problem: str) -> None:
    """A flow run and a form name a wrong key of the experiment."""
    wrong = {"name": "x", "arms": SOLVERS, **changes}
    with pytest.raises(ValidationError, match=problem):
        schema_tools.validate({"experiment": wrong}, schema("benchmark"), raise_on_error=True)
    [error] = schema_tools.validate({"experiment": wrong}, schema("benchmark"))
    assert problem in error.message


@pytest.mark.parametrize("name", declared())
def test_a_deployment_is_complete(name: str) -> None:
    """Every deployment has a description, a tag, a pool, checked parameters and a concurrency limit
    with a strategy."""
    deployment = declared()[name]
    assert len(deployment["description"]) > 40
    assert len({"durabench", JOB_TAG} & {*deployment["tags"]}) == 1, "dead ones end in one way"
    assert deployment["work_pool"]["name"] == "durabench"
    assert deployment["enforce_parameter_schema"] is True
    assert deployment["concurrency_limit"]["collision_strategy"] in {"ENQUEUE", "CANCEL_NEW"}
    path, _, flow = deployment["entrypoint"].rpartition(":")
    module = importlib.import_module(path.removesuffix(".py").replace("/", "."))
    assert getattr(module, flow) is FLOWS[flow]
    given = deployment.get("parameters", {})
    required = set(schema(flow).get("required", [])) - given.keys()
    first = {"instance_id", "predictions", "name", "experiment", "queue", "request", "definition"}
    assert required <= first
    jsonschema.validate(given, schema(flow) | {"required": []})


@pytest.fixture(scope="module")
def deployed(prefect_server: PrefectServer) -> PrefectServer:
    """Deploy everything to the server. Return the server."""
    assert prefect_server.run("durabench", "setup").returncode == 0
    prefect_server.prefect("deploy", "--all")
    return prefect_server


@pytest.mark.slow
@pytest.mark.full
def test_the_smoke_deployment_runs_on_a_worker(deployed: PrefectServer) -> None:
    """The scheduled benchmark, deployed as prefect.yaml says, completes on a worker and leaves its
    report."""
    server = deployed
    smoke = server.get("/deployments/name/benchmark/smoke")
    assert smoke["schedules"][0]["schedule"]["cron"] == "0 4 * * *"
    assert smoke["concurrency_options"]["collision_strategy"] == "CANCEL_NEW"
    with server.worker():
        server.prefect("deployment", "run", "benchmark/smoke", "--watch")
    lake = Lake.existing(server.environment["DURABENCH_LAKE"])
    [name] = [each for each in lake.experiments() if each.startswith("smoke-")]
    progress, told = (
        artifact_key(kind, name, journals.lake_id(lake)) for kind in ("progress", "report")
    )
    server.prefect("artifact", "inspect", progress)
    assert "Arms" in server.prefect("artifact", "inspect", told)
    [run] = server.post("/flow_runs/filter", {"flow_runs": {"name": {"any_": [name]}}})
    assert run["state"]["message"].endswith(f"results of {name}")
    resolved = {arm.name: arm.resolved for arm in report_files.read(lake, name).arms}
    assert resolved == {"mini": 2, "gold": 2, "null": 0}
    assert report_files.page_path(lake, name).is_file()

    wrong = {"experiment": {**smoke["parameters"]["experiment"], "concurency": 2}}
    refused = server.refuses(f"/deployments/{smoke['id']}/create_flow_run", {"parameters": wrong})
    assert "concurency" in refused


@pytest.mark.full
@pytest.mark.slow
def test_a_slot_for_benchmarks_and_one_for_cells_suffice(deployed: PrefectServer) -> None:
    """Workers with one slot each, for one queue each, complete a distributed benchmark from a
    Variable. It counts only the workers for cells."""
    server = deployed
    experiment = {
        "name": "queued",
        "environment": "host",
        "execution": "distributed",
        "select": {"sample": 1},
        "repeats": 2,
        "concurrency": 2,
        "arms": [{"name": "null", "agent": "null"}],
    }
    for worker in server.post("/work_pools/durabench/workers/filter", {}):
        server.delete(f"/work_pools/durabench/workers/{worker['name']}")  # of earlier tests
    server.prefect("variable", "set", "queued", yaml.safe_dump(experiment))
    polls = {"PREFECT_WORKER_QUERY_SECONDS": "1"}
    benchmarks = ["--work-queue", "benchmarks", "--name", "benchmarks", "--limit", "1"]
    with (
        server.worker(*benchmarks, **polls),
        server.worker("--work-queue", "cells", "--limit", "1", **polls),
    ):
        wait_until(lambda: len(online(server)) == 2)
        ordered = ["deployment", "run", "benchmark/benchmark", "--watch"]
        server.prefect(*ordered, "--param", "experiment=queued")
    lake = Lake.existing(server.environment["DURABENCH_LAKE"])
    assert [arm.planned for arm in report_files.read(lake, "queued").arms] == [2]
    [run] = server.post("/flow_runs/filter", {"flow_runs": {"name": {"any_": ["queued"]}}})
    assert run["state"]["message"] == "2 cells done · results of queued"
    assert len(shards(server, "queued")) == 1


@pytest.mark.full
@pytest.mark.slow
def test_flows_are_served_without_a_work_pool(deployed: PrefectServer) -> None:
    """Deployments of a pool are served only on request, and then run in this process."""
    refused = deployed.run("durabench", "serve-flows")
    assert refused.returncode == 2
    assert "benchmark/benchmark belongs to work pool durabench" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    cells = {
        "environment": "host",
        "select": {"sample": 1},
        "arms": [{"name": "null", "agent": "null"}],
    }
    serving = deployed.begin("durabench", "serve-flows", "--replace")
    try:
        wait_until(lambda: "serving benchmark/benchmark" in deployed.printed(serving))
        wait_until(lambda: _pool(deployed, "benchmark/benchmark") is None)
        for execution in ("local", "distributed"):
            experiment = {"name": f"served-{execution}", "execution": execution, **cells}
            parameters = json.dumps({"experiment": experiment})
            ordered = ["deployment", "run", "benchmark/benchmark", "--watch"]
            deployed.prefect(*ordered, "--params", parameters)
    finally:
        serving.send_signal(signal.SIGINT)
        assert serving.wait(60) == 0
    lake = Lake.existing(deployed.environment["DURABENCH_LAKE"])
    for name in ("served-local", "served-distributed"):
        assert [arm.resolved for arm in report_files.read(lake, name).arms] == [0]
        assert len(lake.rows("evaluations", name)) == 1
    assert deployed.get("/deployments/name/benchmark/smoke")["paused"] is True


def _pool(server: PrefectServer, deployment: str) -> str | None:
    name: str | None = server.get(f"/deployments/name/{deployment}")["work_pool_name"]
    return name
