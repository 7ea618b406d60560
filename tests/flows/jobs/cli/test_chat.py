"""`durabench chat`, `send`, `end`, `approve` and `history` at the command line."""

import asyncio
import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from agent.journal import Attempt, InboxMessage, Journal
from agent.journal.holding import worker
from eval import instances
from flows.cli.app import app
from flows.jobs.cli import terminal
from flows.storage.journals import open_journal
from flows.storage.lake import Lake

INSTANCE = instances.load(instances.BUNDLED)[0].instance_id
LIMIT = 100_000
"""Bytes of the longest message."""


def answer(text: str) -> str:
    return text


def write(path: str) -> dict[str, Any]:
    return {"calls": [{"tool": "write", "arguments": {"path": path, "content": "hello\n"}}]}


@pytest.fixture
def file(tmp_path: Path) -> str:
    """Write an experiment with an arm that asks what to do, and does it. Return its path."""
    replies = [answer("What shall I do?"), write("notes.txt"), answer("It is written.")]
    arm = {
        "name": "talk",
        "agent": "loop",
        "model": {"provider": "scripted", "replies": replies},
        "options": {"interactive": True, "capabilities": ["files"]},
    }
    path = tmp_path / "arms.yaml"
    path.write_text(yaml.safe_dump({"name": "arms", "arms": [arm]}))
    return str(path)


def said(*command: str, typed: str = "") -> tuple[int, str]:
    """Run a command. Return its exit code and all that it printed."""
    done = CliRunner().invoke(app, list(command), input=typed, env={"COLUMNS": "200"})
    return done.exit_code, done.output


def chat_id(lake_path: str) -> str:
    """Return the id of the only attempt of a lake."""
    [attempt] = open_journal(Lake.existing(lake_path)).find("")
    return attempt.attempt_id


@pytest.fixture
def journal(lake_path: str) -> Journal:
    """Return the journal of a lake with one attempt of each kind, without workers."""
    journal = open_journal(Lake.open(lake_path))
    for name, agent in (("aa1", "loop"), ("bb1", "mini"), ("cc1", "loop"), ("dd1", "loop")):
        spec = json.dumps({"agent": agent, "model": None})
        journal.start(Attempt(name, "e", "arm", "instance", 0, spec))
    for name in ("cc1", "dd1"):
        lease = journal.acquire(name, worker(), 60)
        journal.end(lease, json.dumps({"status": "submitted", "detail": "", "patch": ""}))
        journal.release(lease)
    journal.retention.prune("dd1")
    journal.inbox("aa1").send(InboxMessage("known", "say", "one", "ann"))
    return journal


@pytest.mark.parametrize(
    ("command", "line"),
    [
        (["send", "zz", "hello"], "there is no attempt 'zz'"),
        (["send", "", "hello"], "there is no attempt ''"),
        (["send", "bb1", "hello"], "only durable, loop and staged read messages"),
        (["send", "cc1", "hello"], "has ended"),
        (["send", "dd1", "hello"], "its steps were pruned"),
        (["send", "aa1", " "], "the message is empty"),
        (["send", "aa1", "x" * (LIMIT + 1)], f"at most {LIMIT:,} are allowed"),
        (["send", "aa1", "two", "--id", "known"], "was sent before with another text"),
        (["end", "aa1", "one", "--id", "known"], "was sent before with another text"),
        (["approve", "aa1"], "asks for no approval"),
        (["approve", "aa1", "--reject"], "asks for no approval"),
        (["approve", "aa1", "--revise", "x"], "asks for no approval"),
        (["approve", "aa1", "--revise", " "], "the message is empty"),
        (["approve", "aa1", "--reject", "--revise", "x"], "exclude each other"),
        (["approve", "zz"], "there is no attempt 'zz'"),
        (["approve", "bb1"], "only durable, loop and staged read messages"),
        (["approve", "cc1"], "has ended"),
        (["approve", "dd1"], "its steps were pruned"),
        (["end", "zz"], "there is no attempt 'zz'"),
        (["end", "cc1"], "has ended"),
        (["end", "dd1"], "its steps were pruned"),
        (["history", "zz", "--all"], "there is no attempt 'zz'"),
        (["history", "dd1"], "its steps were pruned"),
        (["chat", "zz"], "there is no attempt 'zz'"),
        (["chat", "cc1"], "[ended] attempt cc1 has ended: submitted"),
        (["chat", "dd1"], "its steps were pruned"),
        (["chat", "aa1", "--repo", "."], "keeps its options"),
    ],
)
def test_what_cannot_be_sent_is_one_line(
    command: list[str], line: str, journal: Journal, lake_path: str
) -> None:
    """The exit code is 2, and nothing is sent."""
    done = CliRunner().invoke(app, [*command, "--lake", lake_path])
    assert done.exit_code == 2, done.output
    assert line in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert [message.id for message in journal.inbox("aa1").read()] == ["known"]


@pytest.mark.parametrize(
    ("typed", "line"),
    [("x" * 1_000_000, "1,000,000 bytes, and at most 100,000"), ("", "is empty"), ("\0", "NUL")],
    ids=["1 MB", "empty", "NUL"],
)
def test_what_is_read_from_a_pipe_is_checked(
    typed: str, line: str, journal: Journal, lake_path: str
) -> None:
    """A text that is longer than a command line can hold is refused as any other one."""
    done = CliRunner().invoke(app, ["send", "aa1", "-", "--lake", lake_path], input=typed)
    assert (done.exit_code, len(done.stderr.splitlines())) == (2, 1), done.output
    assert line in done.stderr
    assert len(journal.inbox("aa1").read()) == 1


def test_sending_again_is_the_same_message(journal: Journal, lake_path: str) -> None:
    """The same id and text add nothing."""
    for _ in range(2):
        code, output = said("send", "aa1", "one", "--id", "known", "--lake", lake_path)
        assert (code, output) == (0, "sent; no worker has it: `durabench chat aa1` carries it on\n")
    assert len(journal.inbox("aa1").read()) == 1


def test_a_busy_attempt_says_so(journal: Journal, lake_path: str) -> None:
    """The message is kept, and the line names the worker of the attempt."""
    lease = journal.acquire("aa1", "machine/1-2", 60)
    code, output = said("send", "aa1", "two", "--lake", lake_path)
    assert (code, output.startswith("[busy] machine/1-2 works on it")) == (0, True)
    journal.release(lease)


@pytest.mark.parametrize(
    ("command", "line"),
    [
        (["--repo", ".", "--instance", "x", "--message", "y"], "and not both"),
        (["--instance", "nothing"], "nothing"),
        (["--repo", ".", "-m", "hello"], "needs a model"),
        (["--repo", ".", "-m", " ", "--model", "openai/x"], "the first message is empty"),
        (["--instance", INSTANCE, "--arm", "none"], "there is no arm 'none'"),
    ],
)
def test_a_chat_that_cannot_begin_is_one_line(
    command: list[str], line: str, lake_path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exit code is 2."""
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["chat", *command, "--lake", lake_path])
    assert done.exit_code == 2, done.output
    assert line in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("typed", ["exit\n", " Quit \n", "/help\n", "/revise it\n"])
def test_the_first_line_is_a_message(typed: str, lake_path: str) -> None:
    """A word of ends and a command are none, and start nothing."""
    code, printed = said(
        "chat", "-e", "host", "--model", "openai/x", "--lake", lake_path, typed=typed
    )
    assert (code, printed.strip()) == (
        2,
        "durabench: a chat starts with a message: none was sent, and nothing is paid",
    )
    assert not Path(lake_path).exists()


def test_standard_input_is_read_line_by_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last line needs no end, and after it there is none."""

    async def read() -> list[str | None]:
        prompt = terminal.prompt()
        return [await prompt.line() for _ in range(3)]

    monkeypatch.setattr("sys.stdin", io.StringIO("one\ntwo"))
    assert asyncio.run(read()) == ["one", "two", None]
