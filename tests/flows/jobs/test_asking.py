"""Jobs and steps of pipelines whose arms ask a person."""

from typing import Any

import pytest

from agent.journal import InboxMessage
from flows.jobs import rows
from flows.jobs.job import job as run_job
from flows.jobs.mailbox import Mailbox, read_asks
from flows.storage.lake import Lake
from tests.flows.jobs.conftest import NAME, REPAIR, arm, request
from tests.servers.forge import Forge

pytestmark = [
    pytest.mark.usefixtures("prefect", "idle_at_once"),
    pytest.mark.slow,
]

RUN = {"calls": [{"tool": "run_command", "arguments": {"command": REPAIR}}]}
DONE = {"calls": [{"tool": "answer", "arguments": {"summary": "adds", "status": "done"}}]}


def careful(name: str) -> dict[str, Any]:
    """Return an arm that repairs, and asks a person to approve its patch."""
    options = {"capabilities": ["shell"], "approval": "patch"}
    model = {"provider": "scripted", "replies": [RUN, DONE]}
    return {"name": name, "agent": "loop", "model": model, "options": options}


def told(lake: Lake, job_id: str, kind: Any, text: str = "") -> None:
    """Send a message to the attempt of a job that waits."""
    [asks] = read_asks(lake, job_id)
    assert asks.wanted == "approval"
    assert "return a + b" in asks.about
    mailbox = Mailbox.of(lake, asks.attempt.attempt_id)
    mailbox.pass_on(InboxMessage(kind, kind, text, "ann"))


async def test_a_job_waits_for_the_answer_to_its_arm(forge: Forge, lake_path: str) -> None:
    """The other arm has ended meanwhile. Nothing is published before, and nothing bought again."""
    arms = [careful("careful"), arm("quick", "echo x >notes.txt")]
    asked = request("unused", arms=arms)
    for _ in range(2):
        await run_job(asked, lake_path)
        lake = Lake.existing(lake_path)
        [row] = rows.read_all(lake)
        assert (row["state"], row["patch"]) == ("waiting", None)
        assert row["detail"] == "arm careful waits for a person's approval"
        assert forge.pulls[NAME] == []
    told(lake, row["job_id"], "approve")
    await run_job(asked, lake_path)
    [row] = rows.read_all(lake)
    assert (row["state"], row["detail"], row["verdict"]) == ("done", "", "nothing_broke")
    assert len(forge.pulls[NAME]) == 1
    assert len(lake.rows("llm_calls", f"job-{row['job_id']}")) == 3
