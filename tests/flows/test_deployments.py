"""The deployments as an operator uses them: a server, a pool, a worker, the prefect command."""

import json
import re
from typing import Any

import jsonschema
import pytest
import yaml
from prefect.server.schemas.actions import WorkPoolCreate
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.utilities.callables import parameter_schema
from prefect.workers.base import BaseJobConfiguration

from flows.benchmark import benchmark
from flows.grade import grade
from flows.report import report
from flows.server.progress import artifact_key
from flows.shard import shard
from flows.solve import solve
from flows.storage import report_files
from flows.storage.lake import Lake
from tests.operation.running import wait_until
from tests.servers.prefect_server import ROOT, PrefectServer

FLOWS = {
    "benchmark": benchmark,
    "solve": solve,
    "shard": shard,
    "grade": grade,
    "report": report,
}

KUBERNETES = ROOT / "flows" / "work_pools" / "kubernetes.json"


def declared() -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((ROOT / "prefect.yaml").read_text())
    return {each["name"]: each for each in content["deployments"]}


def schema(name: str) -> dict[str, Any]:
    """The parameters of a flow as Prefect's forms get them, ready for validating."""
    made = parameter_schema(FLOWS[name].fn).model_dump(by_alias=True)
    return made | {"additionalProperties": False}


def validate(name: str, parameters: dict[str, Any]) -> None:
    jsonschema.validate(parameters, schema(name))


@pytest.mark.parametrize("name", FLOWS)
def test_every_parameter_says_what_it_is(name: str) -> None:
    """A title, a description and a type; those of an experiment's parts too."""
    made = schema(name)
    for parameter, shown in made["properties"].items():
        assert shown["title"] == parameter
        assert shown.get("description") or "$ref" in shown, parameter
    silent = [
        f"{part}.{field}"
        for part in (
            "Experiment",
            "MiniArm",
            "DurableArm",
            "Selection",
            "Images",
            "Budget",
            "SimulatedSpec",
        )
        for field, shown in made.get("definitions", {}).get(part, {}).get("properties", {}).items()
        if not shown.get("description") and "const" not in shown and "$ref" not in shown
    ]
    assert silent == []


def test_choices_are_enumerations_and_models_are_tabs() -> None:
    """What a form offers: lists of words, and a model as text or as one of four blocks."""
    made = schema("solve")
    assert made["properties"]["trace"]["enum"] == ["off", "steps"]
    arms = made["definitions"]["Experiment"]["properties"]["arms"]["items"]
    agents = list(arms["discriminator"]["mapping"])
    assert agents == ["durable", "gold", "mini", "mini_retry", "null"]
    assert "profile" not in made["definitions"]["MiniOptions"]["properties"]
    assert schema("grade")["properties"]["environment"]["enum"] == ["auto", "docker", "host"]
    assert schema("grade")["properties"]["predictions"]["type"] == "string"
    model = made["definitions"]["Experiment"]["properties"]["model"]["anyOf"]
    assert [each.get("type") or each["$ref"].rpartition("/")[2] for each in model] == [
        "string",
        "LiteLLMSpec",
        "SimulatedSpec",
        "RecordedSpec",
        "ScriptedSpec",
        "null",
    ]


def test_the_schema_takes_what_an_experiment_takes() -> None:
    """The forms check by the schema alone: every experiment file passes, mistakes do not."""
    for path in (ROOT / "flows" / "experiments").glob("*.yaml"):
        validate("benchmark", {"experiment": yaml.safe_load(path.read_text())})
    arms = [{"name": "mini", "agent": "mini"}]
    validate("benchmark", {"experiment": {"name": "x", "model": "openai/gpt-5", "arms": arms}})
    for wrong in [
        {"name": "x", "arms": arms, "arm": "mini"},
        {"name": "x", "arms": [{"name": "mini", "agent": "nobody"}]},
        {"name": "x", "arms": arms, "budgets": {"attempt": {"usd": -1}}},
    ]:
        with pytest.raises(jsonschema.ValidationError):
            validate("benchmark", {"experiment": wrong})


@pytest.mark.parametrize("name", declared())
def test_a_deployment_is_complete(name: str) -> None:
    """Description, tags, pool, checked parameters, and a limit with what happens beyond it."""
    deployment = declared()[name]
    assert len(deployment["description"]) > 40
    assert "durabench" in deployment["tags"]
    assert deployment["work_pool"]["name"] == "durabench"
    assert deployment["enforce_parameter_schema"] is True
    assert deployment["concurrency_limit"]["collision_strategy"] in {"ENQUEUE", "CANCEL_NEW"}
    flow = deployment["entrypoint"].rpartition(":")[2]
    given = deployment.get("parameters", {})
    required = set(schema(flow).get("required", [])) - given.keys()
    assert required <= {"instance_id", "predictions", "name", "experiment", "queue"}
    jsonschema.validate(given, schema(flow) | {"required": []})


@pytest.mark.slow
async def test_the_kubernetes_template_makes_a_job(prefect_server: PrefectServer) -> None:
    """Prefect's server accepts it, it makes a job of a deployment's variables, and a job has
    the daemon beside it that instances need. No cluster is here: the job is not run."""
    template = json.loads(KUBERNETES.read_text())
    WorkPoolCreate(name="durabench", type="kubernetes", base_job_template=template)
    variables = template["variables"]
    jsonschema.Draft202012Validator.check_schema(variables)
    values = {**declared()["solve"]["work_pool"]["job_variables"], "image": "i", "lake_claim": "c"}
    jsonschema.validate(values, variables)
    with pytest.raises(jsonschema.ValidationError, match="'image' is a required property"):
        jsonschema.validate({}, variables)

    class Job(BaseJobConfiguration):
        """As the Kubernetes worker's: the manifest is one of the job's settings."""

        job_manifest: dict[str, Any]

    with temporary_settings({PREFECT_API_URL: prefect_server.url}):
        made = await Job.from_template_and_values(template, values)
    assert made.env["PREFECT_FLOWS_HEARTBEAT_FREQUENCY"] == "30"
    assert made.job_manifest["spec"]["backoffLimit"] == 0
    pod = made.job_manifest["spec"]["template"]["spec"]
    [main], [daemon] = pod["containers"], pod["initContainers"]
    assert main["image"] == "i"
    assert {"name": "DOCKER_HOST", "value": "tcp://127.0.0.1:2375"} in main["env"]
    assert (daemon["restartPolicy"], daemon["securityContext"]) == ("Always", {"privileged": True})
    assert {"name": "lake", "persistentVolumeClaim": {"claimName": "c"}} in pod["volumes"]
    # The worker itself fills in what every job has of its own.
    left = set(re.findall(r"{{ (\w+) }}", json.dumps(made.job_manifest)))
    assert left <= {"command", "labels", "name"}


@pytest.fixture(scope="module")
def deployed(prefect_server: PrefectServer) -> PrefectServer:
    """The server with all deployments."""
    assert prefect_server.run("durabench", "setup").returncode == 0
    prefect_server.prefect("deploy", "--all")
    return prefect_server


@pytest.mark.slow
def test_the_schedule_makes_flow_runs(deployed: PrefectServer) -> None:
    """The nights to come are there for the UI to show, and for a worker to take."""
    nights = {
        "deployments": {"name": {"any_": ["smoke"]}},
        "flow_runs": {"state": {"type": {"any_": ["SCHEDULED"]}}},
    }
    wait_until(lambda: deployed.post("/flow_runs/count", nights) >= 3)


@pytest.mark.slow
def test_the_smoke_deployment_runs_on_a_worker(deployed: PrefectServer) -> None:
    """Deployed as prefect.yaml says, the scheduled benchmark completes and leaves its report."""
    server = deployed
    smoke = server.get("/deployments/name/benchmark/smoke")
    assert smoke["schedules"][0]["schedule"]["cron"] == "0 4 * * *"
    assert smoke["concurrency_options"]["collision_strategy"] == "CANCEL_NEW"
    with server.worker():
        server.prefect("deployment", "run", "benchmark/smoke", "--watch")
    lake = Lake.existing(server.environment["DURABENCH_LAKE"])
    [name] = [each for each in lake.experiments() if each.startswith("smoke-")]
    server.prefect("artifact", "inspect", artifact_key("progress", name))
    assert "Arms" in server.prefect("artifact", "inspect", artifact_key("report", name))
    resolved = {arm.name: arm.resolved for arm in report_files.read(lake, name).arms}
    assert resolved == {"mini": 2, "gold": 2, "null": 0}
    assert report_files.page_path(lake, name).is_file()

    wrong = {"experiment": {**smoke["parameters"]["experiment"], "concurency": 2}}
    refused = server.refuses(f"/deployments/{smoke['id']}/create_flow_run", {"parameters": wrong})
    assert "concurency" in refused
