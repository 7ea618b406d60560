"""People talk with agents: about an instance, about a repository, and about a plan."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.journal import Journal
from eval import instances
from flows.storage import journals
from flows.storage.images import CACHE_VARIABLE
from flows.storage.journals import open_journal
from tests.agent.repositories import with_files
from tests.journeys.command_line import Terminal
from tests.timing import as_variables

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

INSTANCE = instances.load(instances.BUNDLED)[0].instance_id
BASE = "durabench/base:bookworm"


def calls(tool: str, **arguments: Any) -> dict[str, Any]:
    """Return an answer of a model that calls a tool."""
    return {"calls": [{"tool": tool, "arguments": arguments}]}


def write(path: str) -> dict[str, Any]:
    return calls("write", path=path, content="hello\n")


@pytest.fixture
def declare(terminal: Terminal) -> Callable[..., str]:
    """Return a function that writes an experiment with one scripted arm. No attempt that waits
    keeps a worker."""
    terminal.variables.update(as_variables(idle_s=0.0))
    terminal.variables[CACHE_VARIABLE] = str(terminal.folder / "cache")

    def written(*replies: Any, **options: Any) -> str:
        arm = {
            "name": "talk",
            "agent": "loop",
            "model": {"provider": "scripted", "replies": list(replies)},
            "options": {"capabilities": ["files"], **options},
        }
        content = {"name": "talks", "select": {"ids": [INSTANCE]}, "arms": [arm]}
        return terminal.write("talks.yaml", content)

    return written


def journal(terminal: Terminal) -> Journal:
    journals.forget()
    return open_journal(terminal.lake)


def attempt_id(terminal: Terminal) -> str:
    """Return the id of the only attempt of the lake."""
    [attempt] = journal(terminal).find("")
    return attempt.attempt_id


@pytest.mark.journey("chat", "chat --instance", "end")
def test_it_is_about_an_instance(
    terminal: Terminal,
    declare: Callable[..., str],
    environment: str,
    request: pytest.FixtureRequest,
) -> None:
    """It starts with the task of the instance, and its end submits the change. While it waits, it
    has no container."""
    file = declare(write("notes.txt"), "It is written.", interactive=True)
    begun = terminal.durabench("chat", "--instance", INSTANCE, "-x", file, "-e", environment)
    assert "It is written." in begun
    if environment == "docker":
        client = request.getfixturevalue("docker_client")
        own = {"label": f"durabench.attempt={attempt_id(terminal)}"}
        # One that is being removed is listed, and then cannot be inspected any more.
        assert client.containers.list(all=True, filters=own, ignore_removed=True) == []
    ended = terminal.durabench("end", attempt_id(terminal)[:12], "thank you", "--wait")
    assert "[ended] submitted (It is written.)" in ended
    [row] = terminal.rows("attempts")
    assert (row["environment"], row["outcome"]) == (environment, "submitted")
    [prediction] = terminal.rows("predictions")
    assert "+hello" in prediction["model_patch"]


@pytest.mark.journey("chat", "send", "history", "trace")
def test_it_is_continued(terminal: Terminal, declare: Callable[..., str]) -> None:
    """Each message is answered once, wherever it is sent from."""
    file = declare("What shall I do?", write("notes.txt"), "It is written.", interactive=True)
    begun = terminal.durabench("chat", "--instance", INSTANCE, "-x", file, "-e", "host")
    assert "What shall I do?" in begun
    attempt = attempt_id(terminal)
    assert f"durabench chat {attempt[:12]}" in begun
    assert "no worker has it" in terminal.durabench("send", attempt[:12], "Write notes.")
    continued = terminal.durabench("chat", attempt[:12], typed="/cost\n/tree\n/help\n/end\n")
    assert "It is written." in continued
    assert "$0.0000 for 3 calls" in continued
    lines = terminal.durabench("history", attempt, "--all").splitlines()
    assert lines.index("What shall I do?") < lines.index("Write notes.")
    assert "write content=hello" in terminal.durabench("trace", attempt[:12])
    assert journal(terminal).account(attempt).calls_billed == 3
    assert "has ended" in terminal.refused("send", attempt[:12], "More?")


@pytest.mark.journey("chat --repo")
def test_it_is_about_a_repository(
    terminal: Terminal, declare: Callable[..., str], tmp_path: Path, environment: str
) -> None:
    """It is a job, whose patch the end leaves. The repository itself is not touched."""
    repository = tmp_path / "repository"
    with_files({"README.md": "Hello\n"})(repository)
    file = declare(write("notes.txt"), "It is written.", interactive=True)
    where = ["-e", environment, *(["--image", BASE] if environment == "docker" else [])]
    begun = ("chat", "--repo", str(repository), "-x", file, "-m", "Write notes.", *where)
    assert "It is written." in terminal.durabench(*begun)
    printed = terminal.durabench("end", attempt_id(terminal)[:12], "--wait")
    assert "[ended] submitted (It is written.)" in printed
    [row] = terminal.lake.all_shared("jobs")
    assert (row["state"], "+hello" in row["patch"]) == ("done", True)
    assert [path.name for path in repository.iterdir() if path.name != ".git"] == ["README.md"]


@pytest.mark.journey("chat --message")
def test_it_is_about_anything(
    terminal: Terminal, declare: Callable[..., str], environment: str
) -> None:
    """It needs no repository, its history starts with the first message, and a word ends it."""
    file = declare("Forty-two.", interactive=True)
    where = ["-e", environment, *(["--image", BASE] if environment == "docker" else [])]
    begun = ("chat", "--message", "What is 25 + 17?", "-x", file, *where)
    printed = terminal.durabench(*begun, typed="bye\ny\n")
    assert "End the chat?" in printed
    assert "[ended] submitted (Forty-two.)" in printed
    lines = terminal.durabench("history", attempt_id(terminal)).splitlines()
    said = [line for line in lines if not line.endswith(":")]
    assert said[:2] == ["What is 25 + 17?", "Forty-two."]
    assert journal(terminal).account(attempt_id(terminal)).calls_billed == 1


@pytest.mark.journey("run", "approve", "history", "status")
def test_a_plan_is_approved(terminal: Terminal, declare: Callable[..., str]) -> None:
    """The run waits for a person, who has the plan revised and then approves it. The next run
    works, and grades."""
    plan = {"cause": "a file is missing", "check": "it is there"}
    plans = [calls("answer", steps=[step], **plan) for step in ("write a.txt", "write b.txt")]
    done = calls("answer", summary="it is written", status="done")
    file = declare(*plans, write("b.txt"), done, approval="plan")
    run = ("run", file, "-e", "host")
    assert "1 of 1 cell waiting for a person" in terminal.durabench(*run, code=3)
    attempt = attempt_id(terminal)
    assert "1. write a.txt" in terminal.durabench("history", attempt[:12])
    assert "waits for a person's approval" in terminal.durabench("status", "talks", "--cells")
    terminal.durabench("approve", attempt[:12], "--revise", "write b.txt instead", "--wait")
    terminal.durabench("approve", attempt[:12])
    assert "talk resolves 0 of 1" in terminal.durabench(*run)
    [prediction] = terminal.rows("predictions")
    assert "b.txt" in prediction["model_patch"]
    assert "a.txt" not in prediction["model_patch"]
