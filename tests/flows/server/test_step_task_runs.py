"""Steps of an attempt as task runs on a Prefect server, if requested."""

import time
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest

from agent.models.protocol import ModelReply, Usage
from agent.session.steps import (
    ActionResult,
    CutOff,
    Result,
    Step,
    StepKind,
)
from agent.workspaces.protocol import CommandResult
from eval import instances
from flows.display.steps import of_step
from flows.server import step_task_runs
from flows.storage.lake import Lake
from tests.servers.prefect_server import PrefectServer

pytestmark = pytest.mark.sampled(5)

ARRIVAL_S = 30.0
"""Time limit for a task run: the server stores task runs every five seconds."""

OUTPUT = CommandResult(0, "1 passed", 8, truncated=False, timed_out=False, duration_s=0.1)
USAGE = Usage(input_tokens=10, output_tokens=2, cost_usd=None)
REPLY = ModelReply({"role": "assistant", "content": "Go on."}, USAGE, "unknown", "m")


def step(
    kind: StepKind, request: dict[str, Any], result: Result, scope: str = "", seq: int = 3
) -> Step:
    return Step(scope, seq, kind, request, "d", result, datetime.now(UTC), 0.25)


@pytest.mark.parametrize(
    ("made", "name"),
    [
        (
            step("model", {"role": "planner", "messages": []}, REPLY, "plan-1", 0),
            "planner plan-1/0",
        ),
        (step("model", {"messages": []}, REPLY), "3"),
        (step("command", {"command": "pytest\n  -q"}, OUTPUT), "3: pytest … (+1 line)"),
        (step("action", {"action": "diff"}, ActionResult("")), "3: diff"),
        (step("limit", {}, CutOff("the attempt")), "3"),
    ],
)
def test_a_step_is_named_after_its_content(made: Step, name: str) -> None:
    """A task run is named after the kind, role, place and command of its step."""
    assert step_task_runs.name(of_step(made)) == f"{made.kind} {name}"


def test_names_and_texts_are_bounded() -> None:
    """A huge command with a huge output is shortened, and a text cannot close its own code
    block."""
    huge = "```" + "x" * 100_000
    result = CommandResult(1, huge, 100_003, truncated=False, timed_out=False, duration_s=1)
    made = step("command", {"command": huge}, result)
    assert len(step_task_runs.name(of_step(made))) == step_task_runs.NAME_CHARACTERS
    shown = step_task_runs.markdown(of_step(made))
    assert len(shown) < 3 * step_task_runs.SHOWN_CHARACTERS
    assert shown.count("````") == 4
    assert "exit 1" in shown


def test_a_model_call_shows_messages_calls_and_an_unknown_price() -> None:
    """A model call shows the new messages, the requested tool calls and its cost, even if
    unknown."""
    call = {"function": {"name": "bash", "arguments": '{"command": "ls"}'}}
    reply = ModelReply({"role": "assistant", "tool_calls": [call]}, USAGE, "unknown", "m")
    made = step("model", {"messages": [{"role": "user", "content": "Fix it."}]}, reply)
    shown = step_task_runs.markdown(of_step(made))
    assert "_user_\n\n```\nFix it.\n```" in shown
    assert "bash:\n  command: ls" in shown
    assert "10 tokens in; 2 out; cost unknown" in shown


@pytest.mark.slow
@pytest.mark.parametrize("task_runs", [True, False])
def test_debug_shows_each_step_as_a_task_run_if_asked(
    prefect_server: PrefectServer, tmp_path_factory: pytest.TempPathFactory, *, task_runs: bool
) -> None:
    """With `--task-runs`, each step is a task run with an artifact. Without it, there are only
    those of the cell."""
    lake = str(tmp_path_factory.mktemp("lake"))
    victim = instances.load("bundled")[0].instance_id
    asked = ["debug", victim, "-e", "host", "--lake", lake, *["--task-runs"][: int(task_runs)]]
    done = prefect_server.run("durabench", *asked)
    assert done.returncode == 0, done.stdout + done.stderr
    store = Lake.existing(lake)
    [attempt] = store.units("attempts", "*")
    kinds = Counter(row["kind"] for row in store.find("steps", attempt))

    [name] = store.experiments()
    expected = 2 + (sum(kinds.values()) if task_runs else 0)
    asked_for = {"flow_runs": {"name": {"like_": name}}, "limit": 200}
    deadline = time.monotonic() + ARRIVAL_S
    while True:
        shown = prefect_server.post("/task_runs/filter", asked_for)
        if {run["state_type"] for run in shown} == {"COMPLETED"} and len(shown) >= expected:
            break
        assert time.monotonic() < deadline, Counter(run["state_name"] for run in shown)
        time.sleep(0.5)
    steps = [run for run in shown if run["name"].split()[0] in kinds]
    assert len(shown) == expected
    assert Counter(run["name"].split()[0] for run in steps) == (kinds if task_runs else Counter())

    of_steps = {"task_run_id": {"any_": [run["id"] for run in steps]}}
    found = prefect_server.post("/artifacts/filter", {"artifacts": of_steps, "limit": 200})
    assert len(found) == len(steps)
    assert all("**Result**" in artifact["data"] for artifact in found)
