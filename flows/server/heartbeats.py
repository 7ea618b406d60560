"""Detect flow runs that died silently, from the heartbeats received by the Prefect server.

`durabench setup` creates an automation for this, but it only starts with the first heartbeat. If
that heartbeat never arrived, because the process died before it or the server lost it, only polling
detects the death.
"""

import time
from datetime import UTC, datetime, timedelta
from functools import partial
from uuid import UUID

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.responses import DeploymentResponse
from prefect.events.filters import (
    EventFilter,
    EventNameFilter,
    EventOccurredFilter,
    EventResourceFilter,
)

from agent.timings import timings
from flows.server.retry import patiently

_FREQUENCY = "PREFECT_FLOWS_HEARTBEAT_FREQUENCY"


class Heartbeats:
    """Heartbeats of one deployment's flow runs, as seen by this program."""

    def __init__(self, client: PrefectClient, deployment: DeploymentResponse) -> None:
        self._client = client
        self._are_sent = _FREQUENCY in (deployment.job_variables or {}).get("env", {})
        self._asked_at = self._knows_since = time.monotonic()
        self._heard_at: dict[UUID, float] = {}

    async def silent(self, runs: list[FlowRun]) -> list[FlowRun]:
        """Return the running flow runs without heartbeats. Call this every few seconds."""
        now = time.monotonic()
        if now - self._asked_at > timings().heartbeat_gap_s:
            self._knows_since = now
        self._asked_at = now
        if not self._are_sent or now - self._knows_since < timings().heartbeat_silence_s:
            return []
        return [run for run in runs if self._is_due(run, now) and not await self._beats(run, now)]

    def _is_due(self, run: FlowRun, now: float) -> bool:
        """Return True if a run has been running for long and was not heard of recently."""
        if run.state is None or not run.state.is_running():
            return False
        runs_since = run.state.timestamp or datetime.now(UTC)
        silence_s = timings().heartbeat_silence_s
        is_new = datetime.now(UTC) - runs_since < timedelta(seconds=silence_s)
        return not is_new and now - self._heard_at.get(run.id, float("-inf")) > silence_s / 3

    async def _beats(self, run: FlowRun, now: float) -> bool:
        since = datetime.now(UTC) - timedelta(seconds=timings().heartbeat_silence_s)
        wanted = EventFilter(
            occurred=EventOccurredFilter(since=since),  # type: ignore[arg-type]  # it is converted
            event=EventNameFilter(name=["prefect.flow-run.heartbeat"]),
            resource=EventResourceFilter(id=[f"prefect.flow-run.{run.id}"]),
        )
        found = await patiently(partial(self._client.read_events, wanted, limit=1))
        if found.events:
            self._heard_at[run.id] = now
        return bool(found.events)
