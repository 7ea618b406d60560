"""Expected errors as states of flows and tasks, on a Prefect server."""

import logging
from uuid import uuid4

import pytest
from prefect import flow, task
from prefect.client.schemas.objects import FlowRun

from flows.display.errors import GateFailed
from flows.server import flow_run, setup
from flows.server.flow_run import end_as_state

pytestmark = [pytest.mark.usefixtures("prefect"), pytest.mark.slow]


@pytest.mark.parametrize("decorate", [flow, task])
async def test_an_expected_error_is_a_state_without_a_traceback(
    caplog: pytest.LogCaptureFixture, decorate: type[flow]
) -> None:
    """The state has the name and the message of the error, which the caller gets itself."""

    @flow
    async def call() -> str:
        state = await miss(return_state=True)
        assert state.is_failed()
        with pytest.raises(GateFailed):
            await state.aresult()
        return f"{state.name}: {state.message}"

    @decorate
    @end_as_state
    async def miss() -> None:
        raise GateFailed("null: resolved is 0.0 %, not >= 0.5")

    with caplog.at_level(logging.INFO, "prefect"):
        assert await call() == "GateFailed: null: resolved is 0.0 %, not >= 0.5"
    assert "GateFailed" in caplog.text
    assert "Traceback" not in caplog.text


async def test_a_bug_has_its_traceback() -> None:
    """An error that nobody expects ends a flow as Prefect has it."""

    @flow
    @end_as_state
    async def stumble() -> None:
        raise KeyError("cell")

    state = await stumble(return_state=True)
    assert (state.name, state.message) == (
        "Failed",
        "Flow run encountered an exception: KeyError: 'cell'",
    )


def test_a_deployed_flow_run_ends_with_an_event_that_automations_expect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without one, a job that has failed would start again for want of heartbeats."""
    own = FlowRun(flow_id=uuid4(), deployment_id=uuid4())
    monkeypatch.setattr(flow_run, "find_own", lambda: own)
    state = flow_run.fail(GateFailed("no arm left a patch"))
    assert f"prefect.flow-run.{state.name}" in setup._SIGNS_OF_LIFE
