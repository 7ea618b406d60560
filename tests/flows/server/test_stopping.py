"""A run that is asked to stop."""

import asyncio
import os
import signal
from collections.abc import Callable

import pytest
from prefect import flow

from agent.errors import Interrupted
from flows.server.stopping import graceful_stop

pytestmark = pytest.mark.usefixtures("prefect")


@flow
async def stopped(goes_on: bool) -> str:
    async with graceful_stop() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        while not stop.requested or goes_on:
            await asyncio.sleep(0.01)
    return "finished what was in flight"


async def test_work_that_ends_in_time_is_not_cut_off() -> None:
    """Work that ends within the grace period is not cut off."""
    state = await stopped(goes_on=False, return_state=True)
    assert await state.result() == "finished what was in flight"


async def test_work_that_takes_too_long_is_cut_off(
    set_timings: Callable[..., None],
) -> None:
    """Work that exceeds the grace period is cut off. The run counts as interrupted, not as
    crashed."""
    set_timings(stop_grace_s=0.1)
    state = await stopped(goes_on=True, return_state=True)
    assert state.is_failed()
    with pytest.raises(Interrupted, match="cut off after 0 s; run the same command again"):
        await state.result()
    task = asyncio.current_task()
    assert task is not None
    assert not task.cancelling()
