"""Time limits and polling intervals, adjustable by operators and tests.

Each field is an environment variable: `lease_s` is `DURABENCH_LEASE_S`. All values are in seconds.
The table in flows/operation/README.md has the same names, defaults and reasons.
"""

from functools import cache
from typing import Annotated

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from agent.errors import InvalidSpec

PREFIX = "DURABENCH_"

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Timings(BaseSettings):
    """The time limits and intervals of one process. Use `timings` to read them."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="ignore", frozen=True)

    lease_s: Seconds = 30.0
    """A worker or shard that is silent for this long loses its attempts and cells to another. It
    renews its lease three times within this period."""

    gateway_ping_s: Seconds = 5.0
    """Interval between signs of life to a program that waits for a model's answer."""

    lease_poll_s: Seconds = 1.0
    """Interval between checks whether another run or shard still holds a cell."""

    journal_patience_s: Seconds = 60.0
    """Retry for this long while the journal's database is unreachable, for example during a restart
    or while its disk is full. Then fail."""

    journal_contact_s: Seconds = 5.0
    """The same for the first contact, since a wrong address should not take a minute to notice."""

    idle_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 300.0
    """An attempt that waits for a person keeps its worker and its container for this long. Then it
    gives them back, and the next message starts it again."""

    inbox_poll_s: Seconds = 0.2
    """Interval at which an attempt that waits for a person reads its inbox."""

    budget_poll_s: Seconds = 0.5
    """Interval between checks whether calls in flight have left enough of a budget for the next
    one."""

    budget_patience_s: Seconds = 900.0
    """A call waits this long for others to settle before its budget counts as exhausted."""

    command_grace_s: Seconds = 10.0
    """Time for a command to end after its own timeout. After that, its shell is abandoned."""

    shell_start_s: Seconds = 30.0
    """Time for the shell of a workspace to run its first command."""

    server_contact_s: Seconds = 3.0
    """Time for a Prefect server to start listening."""

    server_answer_s: Seconds = 7.0
    """Time for the first answer of a Prefect server. A busy server needs some seconds."""

    server_version_s: Seconds = 30.0
    """Time for the second answer. It is longer, since the server is known to be Prefect by then."""

    server_start_s: Seconds = 120.0
    """Time for the private Prefect server of a command to start on a slow machine. Its first start
    also creates its database."""

    server_patience_s: Seconds = 900.0
    """Retry for this long while the Prefect server is unreachable, for example during an upgrade or
    a reboot. Then the run fails."""

    server_retry_s: Seconds = 2.0
    """Interval between requests to an unreachable Prefect server."""

    fanout_poll_s: Seconds = 2.0
    """Interval between looks of a benchmark at its shards and at the cells that have ended."""

    pending_s: Seconds = 240.0
    """Time for a worker of a process pool to begin a flow run. After that, the worker counts as
    dead."""

    pending_elsewhere_s: Seconds = 900.0
    """The same in other pools, which may have to pull an image and wait for a free machine."""

    no_worker_hint_s: Seconds = 45.0
    """Tell the operator how to start a worker after this long without any."""

    slot_lease_s: Annotated[float, Field(ge=60, allow_inf_nan=False)] = 60.0
    """A slot of the limit over all cells stays taken for this long after its holder was killed.
    Prefect requires at least 60."""

    heartbeat_silence_s: Seconds = 180.0
    """A flow run without a heartbeat for this long counts as dead, and so does a shard that took no
    lease. The default is six heartbeats of the bundled deployments, so that the server may be
    unreachable for a while."""

    stop_grace_s: Seconds = 25.0
    """Time for calls in flight to finish after a request to stop. After that, they are cut off."""

    pause_poll_s: Seconds = 1.0
    """Interval between checks whether a flow run was paused or cancelled. New calls may begin until
    the server has answered the next check."""

    stop_check_s: Seconds = 0.25
    """Interval at which a waiting call or cell checks whether the run is to stop."""

    trace_poll_s: Seconds = 0.5
    """Interval at which `durabench trace --follow` reads the journal."""

    service_answer_s: Seconds = 10.0
    """Time for an answer of the Prefect server to `durabench serve`. After that, a request fails
    with 503."""

    service_poll_s: Seconds = 0.2
    """Interval at which `durabench serve` reads the journal while a job is followed."""

    service_status_s: Seconds = 1.0
    """Interval at which it reads the states of these jobs from the lake and from Prefect."""

    artifact_interval_s: Seconds = 5.0
    """Minimum time between updates of the progress artifact. It is for people, so more updates
    would only load the server."""

    doctor_check_s: Seconds = 20.0
    """Time limit of each check of `durabench doctor`. A check that hangs is reported and
    abandoned."""

    doctor_fix_s: Seconds = 600.0
    """Time limit of the removal of leftovers with `durabench doctor --fix`."""

    prune_grace_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 24 * 3600.0
    """`durabench prune` keeps unreferenced files that are younger than this, because a writer may
    be about to write the row that refers to them."""


@cache
def timings() -> Timings:
    """Return the timings from the environment, as read by the first call.

    Raises:
        InvalidSpec: a variable is not a valid number of seconds.
    """
    try:
        return Timings()
    except ValidationError as error:
        problems = (
            f"{variable(str(each['loc'][0]))}={each['input']}: {each['msg']}"
            for each in error.errors()
        )
        raise InvalidSpec("; ".join(problems)) from None


def variable(name: str) -> str:
    """Return the name of a field's environment variable."""
    return f"{PREFIX}{name}".upper()
