"""Which flow runs have died without a word, by the heartbeats that a Prefect server was sent.

`durabench setup` makes an automation for the same, which waits from a first heartbeat on. Where
that never came, since the process died before it or the server lost it, only asking finds it out.
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
    """Those of the flow runs of one deployment, as far as this program can know of them."""

    def __init__(self, client: PrefectClient, deployment: DeploymentResponse) -> None:
        self._client = client
        self._are_sent = _FREQUENCY in (deployment.job_variables or {}).get("env", {})
        self._asked_at = self._knows_since = time.monotonic()
        self._heard_at: dict[UUID, float] = {}

    async def silent(self, runs: list[FlowRun]) -> list[FlowRun]:
        """Those that run and send nothing any more; to be asked every few seconds."""
        now = time.monotonic()
        if now - self._asked_at > timings().heartbeat_gap_s:
            self._knows_since = now
        self._asked_at = now
        if not self._are_sent or now - self._knows_since < timings().heartbeat_silence_s:
            return []
        return [run for run in runs if self._is_due(run, now) and not await self._beats(run, now)]

    def _is_due(self, run: FlowRun, now: float) -> bool:
        """Whether it is time to look: it has run for long, and was not heard of of late."""
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
