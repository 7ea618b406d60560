"""A chat on a real terminal: turns that are ended, killed processes, and commands."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from flows.storage import journals
from flows.storage.journals import open_journal
from flows.storage.lake import Lake
from tests.flows.jobs.cli.test_chat import INSTANCE, answer, chat_id, said, write
from tests.servers.prefect_server import ROOT, PrefectServer, command_line
from tests.terminal import CTRL_C, CTRL_D, ENTER, Terminal

pytestmark = [pytest.mark.slow, pytest.mark.full, pytest.mark.timeout(600)]


def slow(seconds: float) -> dict[str, Any]:
    return {"calls": [{"tool": "run_command", "arguments": {"command": f"sleep {seconds}"}}]}


def chatting(
    server: PrefectServer,
    folder: Path,
    *replies: Any,
    attempt: str | None = None,
    environment: str = "host",
) -> Terminal:
    """Return a terminal with a chat: a new one with scripted replies, or one to continue."""
    arm = {
        "name": "talk",
        "agent": "loop",
        "model": {"provider": "scripted", "replies": list(replies)},
        "options": {"interactive": True, "capabilities": ["files", "shell"]},
    }
    file = folder / "arms.yaml"
    if attempt is None:
        file.write_text(yaml.safe_dump({"name": "arms", "arms": [arm]}))
    new = ["--instance", INSTANCE, "-x", str(file), "-e", environment]
    return on_terminal(server, folder, *([attempt] if attempt else new))


def on_terminal(server: PrefectServer, folder: Path, *arguments: str) -> Terminal:
    """Return a terminal with `durabench chat`."""
    given = {**server.environment, "DURABENCH_LAKE": str(folder / "lake")}
    return Terminal(command_line("durabench", "chat", *arguments), given, ROOT)


def texts(attempt: str, lake_path: str) -> list[str]:
    """Return what was said, without times and names."""
    printed = said("history", attempt, "--lake", lake_path)[1]
    return [line for line in printed.splitlines() if not line.endswith(":")]


@pytest.fixture
def lake_path(tmp_path: Path) -> str:
    return str(tmp_path / "lake")


def test_ctrl_c_ends_the_turn_and_not_the_chat(
    prefect_server: PrefectServer, tmp_path: Path, lake_path: str
) -> None:
    """A tool at work is cut off for good, the next message continues, and Ctrl-D leaves."""
    replies = [slow(600), write("notes.txt"), answer("It is written.")]
    with chatting(prefect_server, tmp_path, *replies) as terminal:
        terminal.until("sleep 600")
        terminal.type(CTRL_C)
        terminal.until("the turn has ended")
        terminal.type(f"Leave it, write notes.{ENTER}")
        terminal.until("It is written.", times=2)
        terminal.type(CTRL_D)
        assert terminal.ended() == 0
        assert "continues it" in terminal.shown
    attempt = chat_id(lake_path)
    last = texts(attempt, lake_path)[-3:]
    assert last == ["Leave it, write notes.", "It is written.", "[waiting]"]
    steps = open_journal(Lake.existing(lake_path)).steps(attempt)
    cut = [step for step in steps if step.result and b"a person ended the turn" in step.result]
    assert [step.kind for step in cut] == ["action"]
    journals.forget()
