"""Approvals at the command line: `durabench approve`, from the request to the prediction."""

import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from prefect.settings import PREFECT_API_URL

from agent.journal import Journal
from flows.storage import report_files
from flows.storage.journals import open_journal
from flows.storage.lake import Lake
from tests.flows.jobs.cli.test_chat import INSTANCE, calling, said
from tests.servers import openai_server
from tests.servers.prefect_server import command_line
from tests.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("prefect", "idle_at_once")]

SLOW_S = 10

Reply = dict[str, Any]


def write(path: str) -> Reply:
    return {"calls": [{"tool": "write", "arguments": {"path": path, "content": "hello\n"}}]}


def slow(seconds: float) -> Reply:
    return {"calls": [{"tool": "run_command", "arguments": {"command": f"sleep {seconds}"}}]}


DONE: Reply = {
    "calls": [{"tool": "answer", "arguments": {"summary": "it is written", "status": "done"}}]
}


def plan(step: str) -> Reply:
    arguments = {"cause": "a file is missing", "steps": [step], "check": "it is there"}
    return {"calls": [{"tool": "answer", "arguments": arguments}]}


def planned(plans: Sequence[Reply], work: Sequence[Reply]) -> openai_server.Script:
    """Return a model that plans, and works once it is given a tool that changes files."""

    def reply(body: dict[str, Any]) -> openai_server.Reply:
        tools = [tool["function"]["name"] for tool in body["tools"]]
        number = sum(message["role"] == "assistant" for message in body["messages"])
        [call] = (work if "write" in tools else plans)[number]["calls"]
        return calling(call["tool"], **call["arguments"])

    return reply


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "throw-away")


@pytest.fixture
def declare(tmp_path: Path) -> Callable[..., str]:
    """Return a function that writes an experiment with an asking arm and the gold arm."""

    def written(approval: str, *replies: Reply, api_base: str = "") -> str:
        model: dict[str, Any] = {"provider": "scripted", "replies": list(replies)}
        if api_base:
            model = {"name": "openai/gpt-4o", "api_base": api_base}
        options = {"capabilities": ["files", "shell"], "approval": approval}
        arms = [
            {"name": "asks", "agent": "loop", "model": model, "options": options},
            {"name": "gold", "agent": "gold"},
        ]
        content = {
            "name": "approving",
            "environment": "host",
            "select": {"ids": [INSTANCE]},
            "arms": arms,
        }
        path = tmp_path / "approving.yaml"
        path.write_text(yaml.safe_dump(content))
        return str(path)

    return written


class Asked:
    """An experiment whose attempt waits for an approval."""

    def __init__(self, file: str, lake_path: str) -> None:
        self.file, self.lake_path = file, lake_path
        self.run(3)
        [self.attempt_id] = [
            row["attempt_id"] for row in self.rows("attempts") if row["agent"] == "loop"
        ]

    def run(self, code: int) -> str:
        """Run the experiment, and check its exit code. Return what it printed."""
        found, output = said("run", self.file, "--lake", self.lake_path)
        assert found == code, output
        return output

    def approve(self, *options: str) -> str:
        """Approve, and check that it is accepted. Return what was printed."""
        found, output = said("approve", self.attempt_id[:12], *options, "--lake", self.lake_path)
        assert found == 0, output
        return output

    def rows(self, table: str) -> list[dict[str, Any]]:
        return Lake.existing(self.lake_path).rows(table, "*")

    @property
    def journal(self) -> Journal:
        return open_journal(Lake.existing(self.lake_path))

    @property
    def about(self) -> str:
        """The text that the attempt waits with; '' if it does not wait."""
        wait = self.journal.inbox(self.attempt_id).wait()
        return "" if wait is None or wait.is_answered else wait.about

    @property
    def outcome(self) -> tuple[str, str]:
        """The outcome of the attempt, with its detail."""
        [row] = [row for row in self.rows("attempts") if row["agent"] == "loop"]
        return row["outcome"], row["detail"]

    @property
    def patch(self) -> str | None:
        """The patch of the prediction; None if there is none."""
        found = [r for r in self.rows("predictions") if r["model_name_or_path"] == "asks"]
        return found[0]["model_patch"] if found else None

    @property
    def standing(self) -> tuple[int, int, dict[str, int]]:
        """The planned and resolved cells of the arm in the report, and the cells by state."""
        arms = report_files.read(Lake.existing(self.lake_path), "approving").arms
        [arm] = [arm for arm in arms if arm.name == "asks"]
        return arm.planned, arm.resolved, {str(k): n for k, n in arm.states.items() if n}

    def paid_once(self, calls: int) -> None:
        """Check that so many calls were made, and none of them twice."""
        account = self.journal.account(self.attempt_id)
        assert account.calls_billed == account.calls_credited == calls


def test_a_patch_is_revised_and_approved(declare: Callable[..., str], lake_path: str) -> None:
    """The prediction has what was asked for, and exists only after the approval."""
    asked = Asked(declare("patch", write("a.txt"), DONE, write("b.txt"), DONE), lake_path)
    assert "a.txt" in asked.about
    asked.approve("--revise", "write b.txt, too", "--wait")
    assert "b.txt" in asked.about
    assert (asked.outcome[0], asked.patch) == ("waiting", None)
    printed = asked.approve("--wait")
    assert printed.splitlines()[-1] == "[ended] submitted (it is written)"
    asked.run(0)
    assert asked.patch is not None
    assert "a.txt" in asked.patch
    assert "b.txt" in asked.patch
    assert asked.standing == (1, 0, {"unresolved": 1})
    asked.paid_once(4)


@pytest.mark.full
def test_a_plan_is_revised_and_approved(declare: Callable[..., str], lake_path: str) -> None:
    """No file is changed before. The run of the experiment carries on what was approved."""
    plans = (plan("write a.txt"), plan("write b.txt"))
    with openai_server.OpenAIServer(planned(plans, (write("b.txt"), DONE))) as model:
        asked = Asked(declare("plan", api_base=model.url), lake_path)
        assert "1. write a.txt" in asked.about
        printed = asked.approve("--revise", "write b.txt instead")
        assert "carries it on" in printed
        asked.run(3)
        assert "1. write b.txt" in asked.about
        assert not [step for step in asked.journal.steps(asked.attempt_id) if step.tree is not None]
        asked.approve()
        asked.run(0)
        assert len(model.requests) == 4
    assert asked.outcome == ("submitted", "it is written")
    assert asked.patch is not None
    assert "b.txt" in asked.patch
    assert "a.txt" not in asked.patch
    asked.paid_once(4)


@pytest.mark.parametrize("approval", ["plan", "patch"])
def test_a_rejected_change_is_an_empty_prediction(
    approval: str, declare: Callable[..., str], lake_path: str
) -> None:
    """The outcome says who rejected it. The cell counts, and is not resolved."""
    replies = [plan("write a.txt")] if approval == "plan" else [write("a.txt"), DONE]
    asked = Asked(declare(approval, *replies), lake_path)
    printed = asked.approve("--reject", "--wait")
    assert "[ended] gave up (rejected by " in printed.splitlines()[-1]
    asked.run(0)
    assert asked.outcome[0] == "gave_up"
    assert asked.patch == ""
    assert asked.standing == (1, 0, {"no_patch": 1})
    asked.paid_once(len(replies))


@pytest.mark.full
def test_an_approval_that_is_never_given_is_waited_for(
    declare: Callable[..., str], lake_path: str
) -> None:
    """Each run says so and buys nothing. There is no prediction, and the cell stays in the
    denominator."""
    asked = Asked(declare("patch", write("a.txt"), DONE), lake_path)
    for _ in range(2):
        assert "1 of 2 cells wait for a person" in asked.run(3)
    assert asked.outcome[0] == "waiting"
    assert asked.patch is None
    assert asked.standing == (1, 0, {"stopped": 1})
    assert asked.journal.holder(asked.attempt_id) is None
    asked.paid_once(2)


@pytest.mark.full
def test_an_approval_outlives_a_crash(declare: Callable[..., str], lake_path: str) -> None:
    """The worker dies after it has read the approval. It is not asked for again."""
    work = (slow(SLOW_S), write("a.txt"), DONE)
    with openai_server.OpenAIServer(planned([plan("write a.txt")], work)) as model:
        asked = Asked(declare("plan", api_base=model.url), lake_path)
        begun = subprocess.Popen(
            command_line("durabench", "approve", asked.attempt_id, "--wait", "--lake", lake_path),
            env={**os.environ, "PREFECT_API_URL": PREFECT_API_URL.value() or ""},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            wait_until(lambda: asked.journal.account(asked.attempt_id).calls_credited == 2)
        finally:
            os.killpg(begun.pid, signal.SIGKILL)
            begun.wait()
        asked.run(0)
        assert len(model.requests) == 4
    assert asked.outcome == ("submitted", "it is written")
    assert asked.patch is not None
    assert "a.txt" in asked.patch
    received = asked.journal.inbox(asked.attempt_id).read()
    assert [message.kind for message in received] == ["approve"]
    asked.paid_once(4)
