"""A run that is suspended or cancelled on a Prefect server, with a counting model."""

import time
from pathlib import Path
from typing import Any

import pytest

from agent.timings import timings
from flows.storage.journals import open_journal
from flows.storage.lake import Lake
from tests.operation.running import billed, declared, order, state, wait_until
from tests.servers import openai_server as api
from tests.servers.prefect_server import PrefectServer

pytestmark = [
    pytest.mark.full,
    pytest.mark.slow,
    pytest.mark.timeout(900),
]

SUSPENDED = {
    "type": "PAUSED",
    "name": "Suspended",
    "state_details": {"pause_reschedule": True, "pause_timeout": "2099-01-01T00:00:00Z"},
}
CANCELLING = {"type": "CANCELLING"}

ANSWER_S = 3.0
"""Time that a busy machine may need to ask the server and to send a request."""

TURNS = [*["ls"] * 15, "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && cat README.md"]


@pytest.mark.usefixtures("workers")
@pytest.mark.parametrize(
    ("execution", "asked", "looks"),
    [("local", SUSPENDED, 1), ("distributed", CANCELLING, 2)],
    ids=["suspended", "cancelled"],
)
def test_no_call_begins_after_a_stop(
    server: PrefectServer, tmp_path: Path, execution: str, asked: dict[str, Any], looks: int
) -> None:
    """A suspended or cancelled benchmark sends no call after a few seconds."""
    name, lake = f"counted-{execution}", tmp_path / "lake"
    script = [api.slow(1.0, api.command(turn)) for turn in TURNS]
    with api.OpenAIServer(api.by_turn(script)) as models:
        model = {"provider": "litellm", "name": "openai/any", "api_base": models.url}
        arms = [{"name": "mini", "agent": "mini", "model": model}]
        content = declared(name=name, execution=execution, arms=arms, concurrency=2)
        parameters = {"experiment": content, "lake": str(lake), "grade": False}
        run = order(server, "benchmark", parameters)
        wait_until(lambda: len(models.began) >= 4)
        server.post(f"/flow_runs/{run}/set_state", {"state": asked})
        stopped_at = time.monotonic()
        over = {"PAUSED", "CANCELLED"}
        wait_until(lambda: lake_is_still(lake) and state(server, run) in over)
        assert max(models.began) < stopped_at + looks * timings().pause_poll_s + ANSWER_S
        began = len(models.began)
        assert began < 2 * len(TURNS)
        assert billed(lake) == began
        again = order(server, "benchmark", parameters)
        wait_until(lambda: state(server, again) in {"COMPLETED", "FAILED", "CRASHED"}, 400)
        assert state(server, again) == "COMPLETED"
        assert len(models.began) == 2 * len(TURNS) == billed(lake)


def lake_is_still(lake: Path) -> bool:
    """Return True if no attempt is leased."""
    return not open_journal(Lake.existing(lake)).active()
