"""Chats in a container, which is gone while they wait, and which they do not need to continue."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from flows.storage import journals
from flows.storage.journals import open_journal
from flows.storage.lake import Lake
from tests.flows.jobs.cli.test_chat import INSTANCE, answer, chat_id, said, write
from tests.flows.jobs.cli.test_chat_on_a_terminal import chatting, slow
from tests.servers.prefect_server import PrefectServer
from tests.terminal import ENTER
from tests.timing import as_variables
from tests.waiting import wait_until

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(600)]

IDLE_S = 10
SLOW_S = 20

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
    """Return what was said and what tools answered, one line each."""
    return said("history", attempt, "--all", "--lake", lake_path)[1].splitlines()


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


@pytest.mark.full
def test_a_chat_continues_after_its_container_is_gone(
    prefect_server: PrefectServer,
    tmp_path: Path,
    containers: Callable[[str], list[Any]],
) -> None:
    """Killed together with its container in a turn, it answers in another one. That one is kept
    for a while, and removed while the person thinks; the open chat continues in a third."""
    server = prefect_server.apart(tmp_path / "here", **as_variables(idle_s=IDLE_S))
    lake_path = str(tmp_path / "lake")
    replies = [
        write("notes.txt"),
        slow(SLOW_S),
        answer("It is written."),
        READ,
        answer("It says hello."),
    ]
    with chatting(server, tmp_path, *replies, environment="docker") as terminal:
        terminal.until(f"slow {SLOW_S}")
        attempt = chat_id(lake_path)
        [first] = wait_until(lambda: containers(attempt))
        terminal.kill()
    first.remove(force=True)
    with chatting(server, tmp_path, attempt=attempt) as terminal:
        terminal.until("It is written.", times=2)
        [second] = containers(attempt)
        assert second.id != first.id
        wait_until(lambda: not containers(attempt), seconds=120)
        journal = open_journal(Lake.existing(lake_path))
        wait_until(lambda: journal.holder(attempt) is None)
        terminal.type(f"What does it say?{ENTER}")
        terminal.until("It says hello.", times=2)
        [third] = containers(attempt)
        assert third.id != second.id
        terminal.type(f"/end{ENTER}")
        terminal.until("[ended] submitted")
        assert terminal.ended() == 0
    assert containers(attempt) == []
    [shown] = [line for line in outputs(attempt, lake_path) if " read: " in line]
    assert "notes.txt, lines 1 to 1 of 1" in shown
    account = journal.account(attempt)
    assert account.calls_billed == account.calls_credited == len(replies)
    journals.forget()
