"""Jobs and steps of pipelines whose arms ask a person."""

from typing import Any

import pytest

from agent.journal import InboxMessage
from flows.jobs import rows, runs
from flows.jobs.definition import Pipeline
from flows.jobs.job import job as run_job
from flows.jobs.mailbox import Mailbox, read_asks
from flows.jobs.pipeline import pipeline as run_pipeline
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


@pytest.mark.full
async def test_a_step_waits_for_the_answer_to_its_arm(forge: Forge, lake_path: str) -> None:
    """Steps that do not depend on it continue, and its answer continues the run."""
    steps = [
        {"name": "fix", "task": "Fix it.", "arm": "careful"},
        {"name": "notes", "task": "Write notes.", "arm": "quick"},
        {"name": "after", "task": "Write more.", "arm": "later", "depends_on": ["fix"]},
    ]
    arms = [careful("careful"), arm("quick", "echo x >A.md"), arm("later", "echo x >B.md")]
    asked = Pipeline.model_validate(
        {"name": "release", "source": NAME, "environment": "host", "publish": "pull_request",
         "arms": arms, "steps": steps}
    )  # fmt: skip
    run = await run_pipeline(asked, lake_path)
    lake = Lake.existing(lake_path)
    row = runs.find(lake, run)
    assert (row["state"], row["detail"]) == (
        "waiting",
        "step fix: arm careful waits for a person's approval",
    )
    states = {each["name"]: each["state"] for each in runs.read_states(row, lake)}
    assert states == {"fix": "waiting", "notes": "done", "after": "skipped"}
    told(lake, runs.step_id(run, "fix"), "approve")
    await run_pipeline(asked, lake_path, run=run)
    row = runs.find(lake, run)
    assert row["state"] == "done"
    assert {each["state"] for each in runs.read_states(row, lake)} == {"done"}
    assert len(forge.pulls[NAME]) == 1
    assert len(lake.places("attempts", "*")) == 3
