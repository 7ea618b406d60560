"""The Logs tab of a run shows the work of its cells, and the terminal does not."""

import re
from typing import Any

import pytest
import yaml

from tests.operation.running import wait_until
from tests.servers.prefect_server import PrefectServer

pytestmark = pytest.mark.slow

INSTANCE = "durabench__quillet-1"

INFO = 20


def declared(name: str, **changes: Any) -> dict[str, Any]:
    """Return an experiment with one cell on the host that pays for its calls."""
    model = {"provider": "simulated", "skill": 1}
    return {
        "name": name,
        "environment": "host",
        "select": {"ids": [INSTANCE]},
        "arms": [{"name": "able", "agent": "mini", "model": model}],
        "evaluation_timeout_s": 120,
        **changes,
    }


def run(server: PrefectServer, content: dict[str, Any], **variables: str) -> str:
    """Run `durabench run`. Return its standard error."""
    path = server.folder / f"{content['name']}.yaml"
    path.write_text(yaml.safe_dump(content))
    done = server.run("durabench", "run", str(path), **variables)
    assert done.returncode in (0, 3), done.stderr
    return done.stderr


def logged(server: PrefectServer, flow_run: str) -> list[dict[str, list[str]]]:
    """Return the messages of each flow run of that name, in order, by task run."""
    chosen = {"flow_runs": {"name": {"any_": [flow_run]}}, "sort": "START_TIME_ASC"}
    return [_logged(server, run["id"]) for run in server.post("/flow_runs/filter", chosen)]


def _logged(server: PrefectServer, flow_run_id: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for record in server.records(flow_run_id):
        run = record["task_run_id"]
        name = _task_name(server, run) if run else "flow run"
        if record["level"] == INFO and not record["message"].startswith("Finished in state"):
            found.setdefault(name, []).append(record["message"])
    return found


def _task_name(server: PrefectServer, task_run_id: str) -> str:
    """Return the name of a task run. The server stores task runs with a delay."""
    chosen = {"task_runs": {"id": {"any_": [task_run_id]}}}
    [task_run] = wait_until(lambda: server.post("/task_runs/filter", chosen))
    name: str = task_run["name"]
    return name


@pytest.mark.full
def test_a_cell_logs_its_steps_its_cost_and_its_verdict(prefect_server: PrefectServer) -> None:
    """The logs of a cell's task runs show its steps, cost and verdict. The terminal and the log of
    the flow run show one line per cell."""
    printed = run(prefect_server, declared("told"))
    assert printed.split("\n", 1) == [f"[1/1] able · {INSTANCE}: resolved", "\n"]
    [records] = logged(prefect_server, "told")
    assert f"[1/1] able · {INSTANCE}: resolved" in records["flow run"]
    begun, *steps, ended = records[f"able · {INSTANCE}"]
    [verdict] = records[f"grade able · {INSTANCE}"]
    assert re.search(r"able · \S+: attempt \w{32} of agent mini with simulated/.*, host$", begun)
    assert [int(re.match(r"(\d+) +(?:model|command) ", step)[1]) for step in steps] == list(
        range(len(steps))
    )
    assert any("tok" in step and "$" in step for step in steps)
    assert max(map(len, steps)) <= 160
    calls = sum(" model " in step for step in steps)
    assert re.search(
        rf": submitted \(Submitted\), {len(steps)} steps, {calls} calls, \$0\.\d+, \d+\.\d s$",
        ended,
    )
    assert re.search(r": resolved, fail-to-pass (\d+) of \1, pass-to-pass (\d+) of \2$", verdict)
