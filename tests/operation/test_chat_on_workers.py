"""A chat over PostgreSQL and a Prefect server: begun here, killed, and continued by a worker."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.journal import Journal
from tests.flows.jobs.cli.test_chat import INSTANCE, answer, write
from tests.operation.running import wait_until
from tests.servers.prefect_server import PrefectServer

pytestmark = [pytest.mark.slow, pytest.mark.full, pytest.mark.timeout(900)]

SLOW_S = 15
REPLIES = [
    {"calls": [{"tool": "run_command", "arguments": {"command": f"sleep {SLOW_S}"}}]},
    write("notes.txt"),
    answer("It is written."),
    answer("You are welcome."),
]


def experiment(folder: Path) -> str:
    """Write an experiment with a chatting arm. Return its path."""
    arm = {
        "name": "talk",
        "agent": "loop",
        "model": {"provider": "scripted", "replies": REPLIES},
        "options": {"interactive": True, "capabilities": ["files", "shell"]},
    }
    path = folder / "arms.yaml"
    path.write_text(yaml.safe_dump({"name": "arms", "arms": [arm]}))
    return str(path)


def chats(server: PrefectServer) -> list[dict[str, Any]]:
    """Return the flow runs of chats that the deployment began, the first one first."""
    asked = {"flows": {"name": {"any_": ["chat"]}}, "sort": "EXPECTED_START_TIME_ASC"}
    found: list[dict[str, Any]] = server.post("/flow_runs/filter", asked)
    return [run for run in found if run["deployment_id"]]


def test_a_killed_chat_is_continued_by_a_worker(on_postgres: PrefectServer, tmp_path: Path) -> None:
    """Each message is answered once, no call is bought twice, and no worker is busy with it."""
    server = on_postgres.apart(tmp_path / "here", DURABENCH_IDLE_S="2")
    journal = Journal.open(server.environment["DURABENCH_DATABASE_URL"])
    known = {attempt.attempt_id for attempt in journal.find("")}
    begun = server.begin(
        "durabench", "chat", "--instance", INSTANCE, "-x", experiment(tmp_path), "-e", "host"
    )

    def new() -> list[str]:
        found = (attempt.attempt_id for attempt in journal.find(""))
        return [each for each in found if each not in known]

    def calls() -> int:
        steps = journal.steps(attempt)
        return sum(step.kind == "model" and step.result is not None for step in steps)

    [attempt] = wait_until(new)
    wait_until(lambda: calls() == 1)  # the slow tool is at work
    os.killpg(begun.pid, signal.SIGKILL)
    begun.wait()
    with server.worker():
        sent = server.run("durabench", "send", attempt, "Write notes.", "--wait", "--id", "one")
        assert sent.returncode == 0, sent.stdout + sent.stderr
        assert "a worker carries it on in flow run" in sent.stdout
        assert sent.stdout.splitlines()[-1] == "It is written."
        wait_until(lambda: [run["state"]["name"] for run in chats(server)] == ["Waiting"])
        assert journal.holder(attempt) is None
        again = server.run("durabench", "send", attempt, "Write notes.", "--id", "one")
        assert again.returncode == 0, again.stderr
        thanks = server.run("durabench", "send", attempt, "Thank you.", "--wait")
        assert thanks.stdout.splitlines()[-1] == "You are welcome."
        ended = server.run("durabench", "end", attempt, "--wait")
        assert ended.stdout.splitlines()[-1] == "[ended] submitted (You are welcome.)"
    account = journal.account(attempt)
    assert account.calls_billed == account.calls_credited == len(REPLIES)
    assert len({tenure.worker for tenure in journal.tenures(attempt)}) > 1
    told = server.run("durabench", "history", attempt).stdout.splitlines()
    assert [line for line in told if not line.endswith(":")] == [
        "Write notes.",
        "It is written.",
        "Thank you.",
        "You are welcome.",
        "[end]",
        "[ended] submitted (You are welcome.)",
    ]
    late = server.run("durabench", "send", attempt, "Hello?")
    assert (late.returncode, len(late.stderr.splitlines())) == (2, 1)
    journal.close()
