"""The page on several machines: a test runs each of its commands."""

import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml

from flows.server.settings import (
    AUTHENTICATION,
    BENCHMARKS_QUEUE,
    CELLS_QUEUE,
    CLIENTS,
    LONGEST_POLL_S,
    WANTED,
    as_lines,
)
from tests.servers.postgres import PostgresServer
from tests.servers.prefect_server import ROOT, PrefectServer

FOLDER = ROOT / "flows" / "operation"
PAGE = (FOLDER / "README.md").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text())

COMMANDS = re.findall(r"^\$ (.*)$", PAGE, re.MULTILINE)

ELSEWHERE = {
    "durabench setup --env-file server.env": "tests/flows/server/test_setup.py",
    "durabench setup": "every test of this folder",
    "durabench serve-flows": "tests/flows/test_deployments.py",
    "prefect --no-prompt deploy --all": "every test of this folder",
    "prefect worker start --pool durabench": "tests/flows/test_deployments.py",
    "sh flows/operation/worker.sh --work-queue benchmarks --name benchmarks": (
        "tests/operation/test_stopped_services.py"
    ),
    "sh flows/operation/worker.sh --work-queue cells --limit 2": (
        "tests/operation/test_stopped_services.py"
    ),
    "prefect deployment inspect report/report": "tests/journeys/test_a_server_with_a_worker.py",
    "prefect block inspect slack-webhook/team": "tests/journeys/test_a_server_with_a_worker.py",
    "prefect automation create --from-file automations.yaml": (
        "tests/journeys/test_a_server_with_a_worker.py"
    ),
    "prefect deployment run benchmark/smoke": "tests/flows/test_deployments.py",
    "prefect deployment run benchmark/benchmark --param experiment=nightly": (
        "tests/flows/test_deployments.py"
    ),
    'prefect variable set nightly "$(cat flows/experiments/bundled.yaml)"': (
        "tests/flows/test_deployments.py"
    ),
    "python -m http.server 8100 --directory lake/reports": (
        "tests/flows/server/test_report_artifacts.py"
    ),
    "durabench doctor": "tests/flows/server/test_setup.py",
    "durabench prune": "tests/flows/operation/test_pruning.py",
    "durabench prune --older-than 90d --remove": "tests/flows/operation/test_pruning.py",
}
"""Commands of the page that other tests run literally, with these tests."""

COMPOSE_TEST = re.compile(r"docker (build|compose)|cd flows/operation|SERVER=")
"""Commands that tests/operation/test_compose.py reads from the page."""


def test_every_command_is_run() -> None:
    """Every command of the page is run by a test."""
    shells = [c for c in COMMANDS if c.startswith(("export ", "createdb ", "(set -a", "set -a"))]
    pools = [c for c in COMMANDS if c.startswith("prefect work-pool create")]
    known = {*shells, *pools, *ELSEWHERE, *(c for c in COMMANDS if COMPOSE_TEST.match(c))}
    assert set(COMMANDS) <= known
    assert ELSEWHERE.keys() <= set(COMMANDS)


@pytest.mark.full
@pytest.mark.slow
def test_a_server_starts_with_what_the_page_says(tmp_path: Path) -> None:
    """With the databases and variables of the page, the server uses PostgreSQL."""
    with PostgresServer() as postgres:
        of_prefect = postgres.create_database()
        first, second = (url.rpartition("/")[2] for url in (of_prefect, postgres.create_database()))
        here = {
            "HOST": "127.0.0.1",
            "5432": str(postgres.port),
            "USER": "bench",
            "PASSWORD": "none",
            "prefect": first,
            "durabench": second,
        }
        exported = dict(
            word.split("=", 1)
            for command in COMMANDS
            if command.startswith("export ") and "DATABASE" in command
            for word in shlex.split(command.removeprefix("export "))
        )
        for name, value in here.items():
            exported = {key: text.replace(name, value) for key, text in exported.items()}
        journal = exported.pop("DURABENCH_DATABASE_URL")
        with PrefectServer(tmp_path / "installation", **exported) as server:
            server.environment["DURABENCH_DATABASE_URL"] = journal
            done = server.run("durabench", "doctor")
            assert f"ok       Prefect API {server.url}" in done.stdout, done.stdout
            assert "no work pool durabench: `durabench setup` creates it" in done.stdout
        with psycopg.connect(of_prefect.replace("+psycopg", "")) as connection:
            assert connection.execute("select count(*) from flow_run").fetchone() == (0,)


@pytest.fixture(scope="module")
def without_a_pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrefectServer]:
    """Yield a server without a work pool; each test deletes the pool that it creates."""
    with PrefectServer(tmp_path_factory.mktemp("installation")) as made:
        yield made


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize("command", [c for c in COMMANDS if "work-pool create" in c])
def test_a_pool_of_containers_is_made_before_the_deployments(
    command: str, without_a_pool: PrefectServer
) -> None:
    """`setup` keeps an existing work pool of containers, and all deployments can use it."""
    server = without_a_pool
    server.prefect(*shlex.split(command)[1:])
    try:
        kind = re.search(r"--type (\w+)", command)[1]  # type: ignore[index]
        done = server.run("durabench", "setup")
        assert done.returncode == 0, done.stderr
        assert "made     work pool" not in done.stdout
        assert server.get("/work_pools/durabench")["type"] == kind
        server.prefect("deploy", "--all")
        [solve] = [d for d in server.post("/deployments/filter", {}) if d["name"] == "solve"]
        assert solve["work_pool_name"] == "durabench"
    finally:
        server.prefect("work-pool", "delete", "durabench")


def test_the_compose_file_has_the_settings_of_setup() -> None:
    """The server's environment contains every setting that `durabench setup` requires."""
    there = {
        name: str(text).replace("${SERVER:-127.0.0.1}", "127.0.0.1")
        for name, text in COMPOSE["services"]["server"]["environment"].items()
    }
    lines = [line for line in as_lines("") if not line.startswith("#")]
    wanted = dict(line.split("=", 1) for line in lines if "AUTH_STRING" not in line)
    assert {name: there.get(name) for name in wanted} == wanted
    assert len(wanted) == len(WANTED)


def test_the_workers_of_the_compose_file_are_those_of_the_page() -> None:
    """They poll often enough for `doctor`, and together they take from both queues."""
    services = COMPOSE["services"]
    taken = {}
    for name in ("worker", "benchmarks"):
        command = services[name]["command"]
        text = command if isinstance(command, str) else command[-1]
        taken[name] = re.findall(r"--work-queue (\S+)", text)
        polls = float(services[name]["environment"]["PREFECT_WORKER_QUERY_SECONDS"])
        assert polls <= LONGEST_POLL_S
    assert taken == {"worker": [CELLS_QUEUE], "benchmarks": [BENCHMARKS_QUEUE]}
    assert services["benchmarks"]["command"] in COMMANDS


def test_the_service_of_the_compose_file_can_answer_a_forge() -> None:
    """It has the secret of webhooks and the token, and takes a default model."""
    service, worker = (COMPOSE["services"][name] for name in ("service", "worker"))
    names = ("DURABENCH_FORGE", "DURABENCH_FORGE_TOKEN", "DURABENCH_WEBHOOK_SECRET")
    for name in names:
        assert service["environment"][name] == f"${{{name}:-}}"
    assert {*names[:2]} <= {*worker["environment"]}
    assert service["command"].endswith(" ${SERVE_OPTIONS:-}")


def test_the_variables_of_the_compose_file_are_named_at_its_head() -> None:
    """The head of the compose file names every required variable of `.env`."""
    text = (FOLDER / "compose.yaml").read_text()
    head = text[: text.index("name: durabench")]
    required = set(re.findall(r"\$\{(\w+):\?\}", text))
    assert required <= set(re.findall(r"^#   (\w+)=", head, re.MULTILINE))


SECRETS = ("PREFECT_PASSWORD", "POSTGRES_PASSWORD", "AWS_SECRET_ACCESS_KEY", "SERVICE_TOKEN")
NEEDED = (*SECRETS, "AWS_ACCESS_KEY_ID")
PUBLISHED = {
    "database": "POSTGRES_PASSWORD",
    "server": "PREFECT_SERVER_API_AUTH_STRING",
    "service": "DURABENCH_SERVICE_TOKEN",
}
"""The variable of each service with a port, without the store, which has a file."""


def configured(folder: Path, names: Iterable[str]) -> "subprocess.CompletedProcess[str]":
    """Return what compose makes of the file with these variables, each of which is its own name."""
    (folder / "names.env").write_text("".join(f"{name}={name}\n" for name in names))
    clean = {name: text for name, text in os.environ.items() if name not in NEEDED}
    return subprocess.run(
        ["docker", "compose", "--env-file", "names.env", "--file", str(FOLDER / "compose.yaml"),
         "config", "--format", "json"],
        cwd=folder, env=clean, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.full
@pytest.mark.docker
def test_compose_publishes_nothing_without_a_password(tmp_path: Path) -> None:
    """Each service with a port has a secret of the operator, and each secret has to be set."""
    made = configured(tmp_path, NEEDED)
    assert made.returncode == 0, made.stderr
    content = json.loads(made.stdout)
    services = content["services"]
    environments = {name: each["environment"] for name, each in services.items() if "ports" in each
                    and "environment" in each}  # fmt: skip
    published = {name for name, each in services.items() if "ports" in each}
    assert published == {*PUBLISHED, "store"}
    for service, variable in PUBLISHED.items():
        assert environments[service][variable].removeprefix("durabench:") in SECRETS
    assert '"secretKey": "AWS_SECRET_ACCESS_KEY"' in content["configs"]["identities"]["content"]
    clients = set(services) - {"database", "store"}
    credentials = {services[name]["environment"].get(CLIENTS) for name in clients - {"server"}}
    assert credentials == {environments["server"][AUTHENTICATION]}
    for name in NEEDED:
        refused = configured(tmp_path, set(NEEDED) - {name})
        assert refused.returncode != 0
        assert name in refused.stderr
        assert "set it in .env" in refused.stderr
