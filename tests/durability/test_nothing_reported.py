"""A server that reports neither tokens nor prices, and a run that is killed: every screen."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.session.limits import get_covered_s
from flows.storage.journals import open_journal
from flows.storage.lake import Lake
from tests.durability.processes import PATIENCE_S
from tests.flows.conftest import SUBMIT
from tests.servers import openai_server as api

pytestmark = [pytest.mark.slow]

_ZERO = re.compile(r"\$0(?![.,]?\d*[1-9])|\b0\+0 tok|\b0 tokens|\bNothing was spent|billed nothing")
"""Nothing as an amount of money or of tokens."""
_TURNS = [api.command("echo one"), api.command("echo two"), SUBMIT]


class _Silent:
    """A script whose answers have no usage. The first request of the second turn is never answered:
    it waits until the test has killed the program."""

    def __init__(self) -> None:
        self.asked, self.killed = threading.Event(), threading.Event()

    def __call__(self, body: dict[str, Any]) -> api.Reply:
        turn = sum(message["role"] == "assistant" for message in body["messages"])
        if turn == 1 and not self.asked.is_set():
            self.asked.set()
            self.killed.wait(PATIENCE_S)
        reply = _TURNS[turn]
        assert isinstance(reply.body, dict)
        return replace(reply, body={k: v for k, v in reply.body.items() if k != "usage"})


def _begun(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    code = "from flows.cli.app import app; app()"
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments, "--lake", str(folder / "lake")],
        cwd=folder,
        env={**os.environ, "OPENAI_API_KEY": "any", "COLUMNS": "120"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def _shown(folder: Path, *arguments: str) -> str:
    """Return what a command prints, which is never that something unknown is 0."""
    output, _ = _begun(folder, *arguments).communicate(timeout=PATIENCE_S)
    assert not _ZERO.search(output), output
    return output


def test_what_nobody_reported_is_unknown_on_every_screen(tmp_path: Path) -> None:
    """Tokens, costs and bills are unknown while the attempt is killed, and after it was resumed."""
    script = _Silent()
    with api.OpenAIServer(script) as server:
        model = {"name": "openai/any", "api_base": server.url}
        declared = {
            "name": "x",
            "environment": "host",
            "select": {"sample": 1},
            "arms": [{"name": "a", "agent": "mini", "model": model}],
        }
        (tmp_path / "x.json").write_text(json.dumps(declared))
        first = _begun(tmp_path, "run", "x.json")
        assert script.asked.wait(PATIENCE_S)
        os.killpg(first.pid, signal.SIGKILL)
        first.communicate(timeout=PATIENCE_S)
        script.killed.set()
        killed = json.loads(_shown(tmp_path, "status", "x", "--json"))
        assert (killed["calls"], killed["unanswered_calls"], killed["unbilled_calls"]) == (1, 1, 2)
        [cell] = killed["cells"]
        for told in (killed, cell):
            assert told["cost_usd"] is told["unanswered_usd"] is None
        assert killed["billed_usd"] is None
        assert "1 call without an answer, of unknown price" in _shown(tmp_path, "status", "x")
        traced = _shown(tmp_path, "trace", cell["attempt_id"])
        assert "; 1 call of unknown price, billed unknown" in traced
        journal = open_journal(Lake.existing(tmp_path / "lake"))
        [began, *_] = journal.steps(cell["attempt_id"])
        _shown(tmp_path, "run", "x.json")
    lake = Lake.existing(tmp_path / "lake")
    [row] = lake.rows("attempts", "x")
    assert (row["outcome"], row["model_calls"], row["unpriced_calls"]) == ("submitted", 3, 3)
    for name in ("input_tokens", "cache_read_tokens", "output_tokens", "cost_usd", "billed_usd"):
        assert row[name] is None, name
    assert row["duration_s"] == get_covered_s(journal.steps(row["attempt_id"]))
    assert row["started_at"] <= began.started_at
    ended = json.loads(_shown(tmp_path, "status", "x", "--json"))
    assert (ended["cost_usd"], ended["billed_usd"], ended["unbilled_calls"]) == (None, None, 4)
    for arguments in (
        ("status", "x", "--cells"),
        ("trace", row["attempt_id"]),
        ("graph", row["attempt_id"]),
        ("report", "x"),
        ("history", "x"),
    ):
        told = _shown(tmp_path, *arguments)
        assert "unknown" in told or "No cost is known." in told, arguments
    for page in (tmp_path / "lake" / "reports" / "x").rglob("*.*"):
        if page.suffix in (".md", ".html"):
            assert not _ZERO.search(page.read_text()), page
    journal.close()
