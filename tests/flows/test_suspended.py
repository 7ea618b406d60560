"""A benchmark in one process that is suspended on a Prefect server."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prefect.client.orchestration import get_client
from prefect.exceptions import Pause
from prefect.flow_engine import run_flow_async
from prefect.states import Suspended

from flows.benchmark import benchmark
from tests.flows.conftest import SUBMIT, trial
from tests.operation.test_no_call_after_a_stop import billed
from tests.servers import openai_server as api
from tests.waiting import until


def answer(body: dict[str, Any]) -> api.Reply:
    """Return a submission, after one second or after some."""
    return api.slow(6.0 if body["model"] == "slow" else 1.0, SUBMIT)


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.usefixtures("prefect")
async def test_a_cell_that_ends_does_not_cut_off_the_calls_of_others(
    lake_path: str, set_timings: Callable[..., None]
) -> None:
    """Prefect pauses the flow run as soon as a task run ends. The calls of other cells are still
    finished and recorded, and the next run repeats none."""
    set_timings(pause_poll_s=600)
    with api.OpenAIServer(answer) as models:
        arms = [
            {
                "name": name,
                "agent": "mini",
                "model": {"provider": "litellm", "name": f"openai/{name}", "api_base": models.url},
            }
            for name in ("quick", "slow")
        ]
        declared = trial(select={"sample": 1}, arms=arms, primary=None, concurrency=2)
        given = {"experiment": declared, "lake": lake_path, "grade": False}
        async with get_client() as client:
            deployment = await client.create_deployment(
                await client.create_flow(benchmark), "suspended"
            )
            run = await client.create_flow_run_from_deployment(deployment)
            running = asyncio.create_task(run_flow_async(benchmark, flow_run=run, parameters=given))
            await until(lambda: len(models.began) >= 2, seconds=120)
            await client.set_flow_run_state(run.id, Suspended(timeout_seconds=3600))
            with pytest.raises(Pause):
                await asyncio.wait_for(running, 120)
            await client.delete_deployment(deployment)
        assert billed(Path(lake_path)) == 2
        await benchmark(declared, lake_path, grade=False)
        assert len(models.began) == billed(Path(lake_path)) == 2
