"""Commands before, during and after the work."""

import itertools
import json
import re
import shutil
import signal
import subprocess
import sys
from typing import Any

import httpx
import pytest
from docker import DockerClient

from agent.arms.command.recipe import list_shipped_recipes
from eval import instances
from flows.cli.exits import EXIT_INFRASTRUCTURE
from tests.agent.arms.command.programs import TINY, tiny
from tests.agent.containers import image_of
from tests.flows.formats.trajectories import HARBOR_JOB
from tests.journeys.command_line import Terminal
from tests.journeys.test_predictions import FIRST
from tests.servers import openai_server as api
from tests.servers.image_registry import ImageRegistry
from tests.servers.postgres import free_port
from tests.servers.prefect_server import PrefectServer
from tests.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.journey("power", "agents list", "agents show", "setup", "doctor", "prune")
def test_before_and_after_a_run(terminal: Terminal) -> None:
    """Nothing of this needs a lake with results."""
    assert "points" in terminal.durabench("power", "--instances", "100")
    listed = terminal.durabench("agents", "list")
    assert [line.split()[0] for line in listed.splitlines()] == list_shipped_recipes()
    assert "dialect: " in terminal.durabench("agents", "show", list_shipped_recipes()[0])
    terminal.durabench("setup")
    assert "nothing is missing" in terminal.durabench("setup")
    (terminal.folder / "lake").mkdir()
    assert f"lake {terminal.folder / 'lake'}" in terminal.durabench("doctor")
    assert "0 bytes would be freed" in terminal.durabench("prune", "--only", "steps")


@pytest.mark.journey("agents check")
def test_a_program_is_admitted(terminal: Terminal, environment: str) -> None:
    """A small agent is metered, has the stated release, sees no key, gets its recorded answers
    after a restart, and needs a provider. If its requests differ, the cure is printed."""
    installed: dict[str, Any] = {}
    if environment == "docker":
        terminal.durabench("images", "build", "--id", FIRST.instance_id)  # and the base image
        write = f"cat >/opt/agent/tiny.py <<'END'\n{TINY.read_text()}\nEND\n"
        installed = {
            "install": {"image": "durabench/base:bookworm", "run": write},
            "run": 'python "$DURABENCH_AGENT/tiny.py" messages',
        }
    recipe = tiny("messages", version="1.0", probe="echo tiny 1.0", **installed)
    content = recipe.model_dump(mode="json")
    file = terminal.write("tiny.yaml", content)
    checked = terminal.durabench("agents", "check", file, "-e", environment)
    assert [line.split()[0] for line in checked.splitlines()[:-1]] == ["ok"] * 6
    assert "5 of 5 recorded answers found after a restart" in checked
    if environment == "docker":
        return

    clock = {**content, "run": f"{content['run']} clock"}
    file = terminal.write("clock.yaml", clock)
    refused = terminal.durabench("agents", "check", file, "-e", environment, code=1)
    assert "0 of 5 recorded answers found after a restart" in refused
    [line] = re.findall(r'add (".*") to `volatile_text`', refused)
    file = terminal.write("mended.yaml", {**clock, "volatile_text": [json.loads(line)]})
    assert "5 of 5 recorded" in terminal.durabench("agents", "check", file, "-e", environment)


@pytest.mark.journey("demo")
def test_the_demo_is_stopped(terminal: Terminal, environment: str) -> None:
    """It needs no key, and Ctrl-C ends it with the results so far."""
    demo = terminal.begin("demo", "-e", environment)
    wait_until(
        lambda: (terminal.folder / "lake").is_dir() and terminal.rows("evaluations"), seconds=240
    )
    demo.send_signal(signal.SIGINT)
    assert demo.wait(timeout=120) == EXIT_INFRASTRUCTURE
    arms = {arm for _, arm, _ in terminal.lake.places("experiments", "*")}
    assert arms == {"mini", "durable", "gold", "null"}


@pytest.mark.journey("debug")
def test_one_attempt_is_watched(terminal: Terminal, environment: str) -> None:
    """An instance is solved afresh, step by step."""
    where = ("--arm", "gold", "-e", environment)
    printed = terminal.durabench("debug", FIRST.instance_id, *where)
    assert f"gold on {FIRST.instance_id}: resolved" in printed
    [row] = [each for each in terminal.rows("evaluations") if each["outcome"] == "resolved"]
    assert row["environment"] == environment


@pytest.mark.docker
@pytest.mark.journey("images check", "images build", "images preflight", "images prune")
def test_images_are_built_and_trusted(terminal: Terminal) -> None:
    """A second preflight reads the result of the first one."""
    ids = ("--id", FIRST.instance_id)
    terminal.durabench("images", "build", *ids)
    assert "available locally: 1 of 1 image" in terminal.durabench("images", "check", *ids)
    terminal.durabench("images", "preflight", *ids)
    [row] = terminal.lake.all_shared("preflights")
    terminal.durabench("images", "preflight", *ids)
    assert terminal.lake.all_shared("preflights") == [row]
    terminal.durabench("images", "prune")


@pytest.mark.journey("import swebench", "import harbor", "report")
def test_results_of_others_are_imported(terminal: Terminal) -> None:
    """A report of each has the verdicts of its files."""
    ids = [each.instance_id for each in instances.load("bundled")[:2]]
    found = {"resolved_ids": ids[:1], "unresolved_ids": ids[1:], "submitted_ids": ids}
    (terminal.folder / "report.json").write_text(json.dumps(found))
    lines = [
        json.dumps({"instance_id": each, "model_name_or_path": "them", "model_patch": "diff"})
        for each in ids
    ]
    (terminal.folder / "preds.jsonl").write_text("\n".join(lines))
    official = ("import", "swebench", "report.json", "--predictions", "preds.jsonl")
    assert "1 of 2" in terminal.durabench(*official, "--name", "official")
    assert "them resolves 1 of 2" in terminal.durabench("report", "official")
    shutil.copytree(HARBOR_JOB, terminal.folder / "job")
    assert "durabench report harbor" in terminal.durabench(
        "import", "harbor", "job", "--name", "harbor"
    )
    assert "lake/reports/harbor/index.html" in terminal.durabench("report", "harbor")


@pytest.mark.journey("import mini")
def test_a_trajectory_of_the_real_mini_is_imported(terminal: Terminal) -> None:
    """Its program writes it, with a model that answers twice."""
    script = [api.command("ls"), api.command("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT")]
    file = f"{FIRST.instance_id}.traj.json"
    with api.OpenAIServer(api.in_order(script)) as server:
        options = {
            "--model": "openai/gpt-4o-mini", "--task": "Repair it.", "--output": file,
            "--cost-limit": "0",
        }  # fmt: skip
        own = {
            "OPENAI_API_BASE": server.url,
            "OPENAI_API_KEY": "throw-away",
            "MSWEA_CONFIGURED": "true",
            "MSWEA_GLOBAL_CONFIG_DIR": str(terminal.folder / "mini"),
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        }
        subprocess.run(
            [sys.executable, "-m", "minisweagent.run.mini", "--yolo", "--exit-immediately",
             *itertools.chain(*options.items())],
            cwd=terminal.folder, env=terminal.environment | own, check=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=120,
        )  # fmt: skip
    imported = terminal.durabench("import", "mini", ".", "-d", "bundled", "--name", "of-mini")
    assert "1 attempt, 2 calls" in imported
    [row] = terminal.rows("attempts")
    assert (row["instance_id"], row["outcome"]) == (FIRST.instance_id, "submitted")


@pytest.mark.docker
@pytest.mark.journey("images pull", "images check", "images prune")
def test_images_are_pulled_and_removed(terminal: Terminal, docker_client: DockerClient) -> None:
    """An image of a registry is there after a pull, and gone after the removal."""
    with image_of("git init -q .", docker_client) as tag, ImageRegistry() as registry:
        docker_client.images.get(tag).tag("durabench-test/pulled", "latest")
        name = registry.take(docker_client, "durabench-test/pulled:latest")
        row = json.dumps({**FIRST.row, "image": name}, default=str)
        (terminal.folder / "rows.jsonl").write_text(row)
        dataset = ("-d", "rows.jsonl")
        assert "0 of 1" in terminal.durabench("images", "check", *dataset, code=1)
        terminal.durabench("images", "pull", *dataset)
        assert "available locally: 1 of 1 image" in terminal.durabench("images", "check", *dataset)
        removed = terminal.durabench("images", "prune", "--remove")
        assert "1 image" in removed
        assert "0 of 1" in terminal.durabench("images", "check", *dataset, code=1)


@pytest.mark.journey("serve", "serve-flows")
def test_the_service_and_the_flows_are_served(
    terminal: Terminal, prefect_server: PrefectServer
) -> None:
    """The service answers, the deployments are on the server, and both end on Ctrl-C."""
    address = f"http://127.0.0.1:{(port := free_port())}"
    programs = [
        terminal.begin("serve", "--port", str(port)),
        terminal.begin("serve-flows", "--replace"),
    ]

    def is_served() -> bool:
        try:
            health = httpx.get(f"{address}/health").json()
        except httpx.TransportError:
            return False
        found = prefect_server.post("/deployments/filter", {})
        return bool(health) and "benchmark" in {each["name"] for each in found}

    try:
        wait_until(is_served, seconds=120)
    finally:
        for program in programs:
            program.send_signal(signal.SIGINT)
    assert [program.wait(60) for program in programs] == [0, 0]
