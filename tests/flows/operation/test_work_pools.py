"""The templates of the Docker and Kubernetes pools, rendered as their workers render them."""

import json
import re
import uuid
from typing import Any, TypeVar

import jsonschema
import pytest
import yaml
from kubernetes_asyncio import client as kubernetes
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.client.schemas.objects import FlowRun
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.workers.base import BaseJobConfiguration
from prefect_docker.worker import DockerWorkerJobConfiguration
from prefect_kubernetes.worker import KubernetesWorkerJobConfiguration

from tests.servers.prefect_server import ROOT

J = TypeVar("J", bound=BaseJobConfiguration)

BASIC = {"image": "registry/durabench:1", "lake": "s3://bucket/lake"}
SHARED = {
    "image": "registry/durabench:1",
    "lake": "/lake",
    "lake_volume": {"name": "lake", "persistentVolumeClaim": {"claimName": "shared"}},
}
FULL = {
    **SHARED,
    "secret": "keys",
    "service_account_name": "cells",
    "docker_memory_limit": "64Gi",
    "docker_disk": "200Gi",
    "node_selector": {"disk": "ssd"},
    "tolerations": [{"key": "cells", "operator": "Exists", "effect": "NoSchedule"}],
    "image_pull_secrets": [{"name": "registry"}],
    "labels": {"team": "agents"},
}


def template(kind: str) -> dict[str, Any]:
    path = ROOT / "flows" / "operation" / "work_pools" / f"{kind}.json"
    content: dict[str, Any] = json.loads(path.read_text())
    return content


async def render(kind: str, job: type[J], values: dict[str, Any]) -> J:
    """Return the job that a worker would start for a deployment in a pool with these values."""
    deployments = yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]
    declared = deployments[0]["work_pool"]["job_variables"] | values
    pool = template(kind)
    WorkPoolCreate(name="durabench", type=kind, base_job_template=pool)
    jsonschema.Draft202012Validator.check_schema(pool["variables"])
    jsonschema.validate(declared, pool["variables"])
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}):  # it is not asked
        rendered = await job.from_template_and_values(pool, declared)
    run = FlowRun(id=uuid.uuid4(), flow_id=uuid.uuid4(), name="nightly: shard 1 of 2")
    rendered.prepare_for_flow_run(run)
    return rendered


def build(kind: str, value: Any) -> Any:
    """Return a value as an object of the Kubernetes client.

    Raises:
        KeyError: Kubernetes does not know a field.
        ValueError: a required field is missing.
    """
    if match := re.fullmatch(r"list\[(.+)\]", kind):
        assert isinstance(value, list), value
        return [build(match[1], item) for item in value]
    if match := re.fullmatch(r"dict\(str, (.+)\)", kind):
        return {name: build(match[1], item) for name, item in value.items()}
    if simple := {"str": str, "int": int, "bool": bool}.get(kind):
        assert type(value) is simple, value
        return value
    model = getattr(kubernetes, kind)
    names = {name: attribute for attribute, name in model.attribute_map.items()}
    types = model.openapi_types
    return model(**{names[name]: build(types[names[name]], item) for name, item in value.items()})


async def render_pod(values: dict[str, Any]) -> Any:
    """Return the specification of the pod of a flow run."""
    job = await render("kubernetes", KubernetesWorkerJobConfiguration, values)
    assert "{{" not in json.dumps(job.job_manifest)
    return build("V1Job", job.job_manifest).spec.template.spec


@pytest.mark.parametrize("values", [BASIC, SHARED, FULL], ids=["S3", "volume", "all"])
async def test_kubernetes_knows_every_field_of_a_job(values: dict[str, Any]) -> None:
    """The job has an image, the lake of its pool, the environment of its deployment, and a Docker
    daemon that starts first. Both containers ask for memory, processors and disk."""
    pod = await render_pod(values)
    [main], [daemon] = pod.containers, pod.init_containers
    assert (main.image, main.args) == (values["image"], ["prefect", "flow-run", "execute"])
    environment = {variable.name: variable.value for variable in main.env}
    assert environment["DURABENCH_LAKE"] == values["lake"]
    assert environment["DOCKER_HOST"] == "tcp://127.0.0.1:2375"
    assert environment["PREFECT_FLOWS_HEARTBEAT_FREQUENCY"] == "30"
    assert main.env_from[0].secret_ref.name == values.get("secret", "durabench")
    assert (daemon.restart_policy, daemon.security_context.privileged) == ("Always", True)
    for container in (main, daemon):
        assert container.resources.requests.keys() == {"cpu", "memory", "ephemeral-storage"}
        assert container.resources.limits.keys() == {"memory"}


async def test_a_lake_on_s3_needs_no_volume_claim() -> None:
    """The folder of a lake is then empty. What is not set is not in the job."""
    pod = await render_pod(BASIC)
    assert [volume.persistent_volume_claim for volume in pod.volumes] == [None, None]
    assert pod.volumes[0].empty_dir is not None
    assert (pod.node_selector, pod.tolerations, pod.image_pull_secrets) == (None, None, None)


async def test_a_cluster_decides_where_pods_run() -> None:
    """Selectors, tolerations, secrets and sizes of a pool are those of its pods."""
    pod = await render_pod(FULL)
    lake, docker = pod.volumes
    assert lake.persistent_volume_claim.claim_name == "shared"
    assert docker.empty_dir.size_limit == "200Gi"
    [daemon] = pod.init_containers
    assert daemon.resources.requests["ephemeral-storage"] == "200Gi"
    assert daemon.resources.limits["memory"] == "64Gi"
    assert pod.node_selector == {"disk": "ssd"}
    assert pod.tolerations[0].key == "cells"
    assert pod.image_pull_secrets[0].name == "registry"
    assert pod.service_account_name == "cells"


@pytest.mark.parametrize("missing", ["image", "lake"])
def test_a_pool_without_image_or_lake_is_refused(missing: str) -> None:
    """Prefect refuses a flow run that lacks one. A lake in a pod would be lost with it."""
    values = {name: value for name, value in BASIC.items() if name != missing}
    with pytest.raises(jsonschema.ValidationError, match=f"'{missing}' is a required property"):
        jsonschema.validate(values, template("kubernetes")["variables"])


async def test_a_docker_pool_needs_no_values() -> None:
    """The container has the image, the lake and the daemon's socket. Values that are not set are
    left to Docker."""
    job = await render("docker", DockerWorkerJobConfiguration, {})
    assert job.image == "durabench:latest"
    assert "/var/run/docker.sock:/var/run/docker.sock" in job.volumes
    assert job.env["DURABENCH_LAKE"] == "/lake"
    assert job.env["PREFECT_FLOWS_HEARTBEAT_FREQUENCY"] == "30"
    assert (job.mem_limit, job.network_mode, job.networks) == (None, None, [])
    assert job.command == "prefect flow-run execute"
    assert "{{" not in job.model_dump_json()
