"""Time limits and intervals that operators and tests can change; all others are constants.

Each field is an environment variable: `lease_s` is `DURABENCH_LEASE_S`. All values are in seconds.
flows/COMMANDS.md lists the variables of operators, CONTRIBUTING.md the variables of tests.
"""

import os
import re
from functools import cache
from typing import Annotated

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from agent.errors import InvalidSpec

PREFIX = "DURABENCH_"

STOP_CHECK_S = 0.25
"""Interval at which a waiting call or cell checks whether the run is to stop."""

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
SecondsOrZero = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class OperatorTimings(BaseSettings):
    """The time limits that an operator may have to change."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="ignore", frozen=True)

    lease_s: Seconds = 30.0
    """A worker or shard that is silent for this long loses its attempts and cells to another. It
    renews its lease three times within this period."""

    journal_patience_s: Seconds = 60.0
    """Retry for this long while the journal's database is unreachable, for example during a restart
    or while its disk is full. Then fail."""

    server_patience_s: Seconds = 900.0
    """Retry for this long while the Prefect server is unreachable, for example during an upgrade or
    a reboot. Then the run fails."""

    pending_s: Seconds = 240.0
    """Time for a worker to start a flow run. After that, the worker counts as dead. Pools that may
    have to pull an image and wait for a free machine get four times as long."""

    heartbeat_silence_s: Seconds = 180.0
    """A flow run without a heartbeat for this long counts as dead, and so does a shard that took no
    lease. The default is six heartbeats of the bundled deployments, so that the server may be
    unreachable for a while."""

    stop_grace_s: Seconds = 25.0
    """Time for calls in flight to finish after a request to stop. After that, they are cut off."""

    idle_s: SecondsOrZero = 300.0
    """An attempt that waits for a person keeps its worker and its container for this long. Then it
    gives them back, and the next message starts it again."""

    prune_grace_s: SecondsOrZero = 24 * 3600.0
    """`durabench prune` keeps unreferenced files that are younger than this, because a writer may
    be about to write the row that refers to them."""


class Timings(OperatorTimings):
    """All time limits and intervals of one process. Use `timings` to read them."""

    server_answer_s: Seconds = 10.0
    """Time for an answer of a Prefect server to the first request of a command, or to any of
    `durabench serve`."""

    server_retry_s: Seconds = 2.0
    """Interval between requests to an unreachable Prefect server."""

    journal_contact_s: Seconds = 5.0
    """Time for the first contact with the journal's database. A wrong address should not take a
    minute to notice."""

    doctor_check_s: Seconds = 20.0
    """Time limit of each check of `durabench doctor`. A check that hangs is reported and
    abandoned."""

    fanout_poll_s: Seconds = 2.0
    """Longest interval between looks of a benchmark at its shards and the cells that have ended."""

    pause_poll_s: Seconds = 1.0
    """Interval between checks whether a flow run was paused or cancelled. New calls can start until
    the server has answered the next check."""

    inbox_poll_s: Seconds = 0.2
    """Interval at which an attempt that waits for a person reads its inbox."""


@cache
def timings() -> Timings:
    """Return the timings from the environment, as read by the first call.

    Raises:
        InvalidSpec: a variable is not a valid number of seconds, or there is no such timing.
    """
    variables = {variable(name) for name in Timings.model_fields}
    if unknown := {name for name in os.environ if re.match(f"{PREFIX}.*_S$", name)} - variables:
        raise InvalidSpec(f"{', '.join(sorted(unknown))}: no such timing (any more): unset it")
    try:
        return Timings()
    except ValidationError as error:
        problems = (
            f"{variable(str(problem['loc'][0]))}={problem['input']}: {problem['msg']}"
            for problem in error.errors()
        )
        raise InvalidSpec("; ".join(problems)) from None


def variable(name: str) -> str:
    """Return the name of a field's environment variable."""
    return f"{PREFIX}{name}".upper()
