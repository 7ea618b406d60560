"""Chats in a container. It is gone while they wait, and they continue without it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from flows.storage.journals import open_journal
from flows.storage.lake import Lake
from tests.flows.jobs.cli.test_chat import INSTANCE, answer, chat_id, said, write

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(600)]


READ: dict[str, Any] = {"calls": [{"tool": "read", "arguments": {"path": "notes.txt"}}]}
"""Reads a file of an earlier turn."""


@pytest.fixture
def containers(docker_client: Any) -> Callable[[str], list[Any]]:
    """Return a function that lists the containers of an attempt, whatever their state."""

    def found(attempt: str) -> list[Any]:
        wanted = {"label": f"durabench.attempt={attempt}"}
        # One that is being removed is listed, and then cannot be inspected any more.
        return list(docker_client.containers.list(all=True, filters=wanted, ignore_removed=True))

    return found


def outputs(attempt: str, lake_path: str) -> list[str]:
    """Return the conversation and the answers of tools, one line each."""
    return said("history", attempt, "--all", "--lake", lake_path)[1].splitlines()


@pytest.mark.full
@pytest.mark.usefixtures("prefect")
def test_a_chat_that_waits_has_no_container(
    tmp_path: Path,
    lake_path: str,
    containers: Callable[[str], list[Any]],
    set_timings: Callable[..., None],
) -> None:
    """The next message gets a new one, with the files of the earlier turns."""
    set_timings(idle_s=0)
    replies = [write("notes.txt"), answer("It is written."), READ, answer("It says hello.")]
    arm = {
        "name": "talk",
        "agent": "loop",
        "model": {"provider": "scripted", "replies": replies},
        "options": {"interactive": True, "capabilities": ["files"]},
    }
    file = tmp_path / "arms.yaml"
    file.write_text(yaml.safe_dump({"name": "arms", "arms": [arm]}))
    lake = ("--lake", lake_path)
    code, output = said("chat", "--instance", INSTANCE, "-x", str(file), "-e", "docker", *lake)
    assert code == 0, output
    attempt = chat_id(lake_path)
    assert containers(attempt) == []
    code, output = said("send", attempt, "What does it say?", "--wait", *lake)
    assert (code, output.splitlines()[-1]) == (0, "It says hello.")
    assert containers(attempt) == []
    [shown] = [line for line in outputs(attempt, lake_path) if " read: " in line]
    assert "notes.txt, lines 1 to 1 of 1" in shown
    code, output = said("end", attempt, "--wait", *lake)
    assert (code, output.splitlines()[-1]) == (0, "[ended] submitted (It says hello.)")
    [prediction] = Lake.existing(lake_path).rows("predictions", "*")
    assert "+hello" in prediction["model_patch"]
    assert containers(attempt) == []
    account = open_journal(Lake.existing(lake_path)).account(attempt)
    assert account.calls_billed == account.calls_credited == len(replies)
