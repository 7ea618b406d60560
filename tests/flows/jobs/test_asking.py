"""Jobs and steps of pipelines whose arms ask a person."""

from typing import Any

import pytest

from agent.journal import InboxMessage
from flows.jobs import rows
from flows.jobs.job import job as run_job
from flows.jobs.mailbox import Mailbox, is_left, leave, read_asks
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
    """The other arm has ended meanwhile. Nothing is published before, and nothing bought again.

    What was said before an arm was at work reaches those that read it. The question is a comment.
    """
    arms = [careful("careful"), arm("quick", "echo x >notes.txt")]
    asked = request("unused", arms=arms, asked_on=f"{forge.url}/{NAME}/issues/7")
    early = InboxMessage("early", "say", "Add, please.", "ann")
    leave(Lake.open(lake_path), asked.job_id, early)
    for _ in range(2):
        await run_job(asked, lake_path)
        lake = Lake.existing(lake_path)
        [row] = rows.read_all(lake)
        assert (row["state"], row["patch"]) == ("waiting", None)
        assert row["detail"] == "arm careful waits for a person's approval"
        assert forge.pulls[NAME] == []
    [(number, question)] = forge.said
    assert number == 7
    start = f"Job `{row['job_id']}` waits for your approval: comment `@durabench approve`.\n\n```"
    assert question.startswith(start)
    [asks] = read_asks(lake, row["job_id"])
    [message] = Mailbox.of(lake, asks.attempt.attempt_id).list_messages()
    assert (message.text, message.sender) == (early.text, early.sender)
    assert [is_left(lake, row["job_id"], name) for name in ("early", "late")] == [True, False]
    told(lake, row["job_id"], "approve")
    await run_job(asked, lake_path)
    [row] = rows.read_all(lake)
    assert (row["state"], row["detail"], row["verdict"]) == ("done", "", "nothing_broke")
    assert len(forge.pulls[NAME]) == 1
    assert len(lake.rows("llm_calls", f"job-{row['job_id']}")) == 3
