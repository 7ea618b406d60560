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

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, extra="ignore", frozen=True, use_attribute_docstrings=True
    )

    lease_s: Seconds = 30.0
    """A worker that is silent for this long loses its attempt to another. It renews its lease
    three times within it."""

    lease_poll_s: Seconds = 1.0
    """Time between two checks whether another run still holds a cell."""

    journal_patience_s: Seconds = 60.0
    """The journal's database may be away for this long before that is an error: a restart, or a
    disk that somebody clears."""

    journal_contact_s: Seconds = 5.0
    """The same for the first contact, since a wrong address should not take a minute to notice."""

    budget_poll_s: Seconds = 0.5
    """Time between two checks whether calls in flight have left enough of a budget for the next
    one."""

    budget_patience_s: Seconds = 900.0
    """A call waits this long for others to settle before its budget counts as exhausted."""

    command_grace_s: Seconds = 10.0
    """A command may take this long to end after its own timeout. Then its shell is given up."""

    shell_start_s: Seconds = 30.0
    """The shell of a workspace may take this long to run its first command."""

    server_contact_s: Seconds = 3.0
    """A Prefect server may take this long to come up where nothing listens yet."""

    server_answer_s: Seconds = 7.0
    """The first answer of a Prefect server may take this long: a busy one needs some seconds."""

    server_version_s: Seconds = 30.0
    """The second answer may take this long, since the server is known to be Prefect by then."""

    server_start_s: Seconds = 120.0
    """The private Prefect server of a command may take this long to start on a slow
    machine. Its first start also creates its database."""

    server_patience_s: Seconds = 900.0
    """The Prefect server may be away for this long before a run fails: an upgrade, or a reboot."""

    server_retry_s: Seconds = 2.0
    """Time between two requests to a Prefect server that is away."""

    fanout_poll_s: Seconds = 2.0
    """Time between two questions to the server about which flow runs of cells are over."""

    pending_s: Seconds = 240.0
    """A worker of a process pool may take this long to begin a flow run. Then the worker counts
    as dead."""

    pending_elsewhere_s: Seconds = 900.0
    """The same in other pools, which may have to pull an image and wait for a machine."""

    no_worker_hint_s: Seconds = 45.0
    """After this long without any worker, the operator is told how to start one."""

    slot_lease_s: Annotated[float, Field(ge=60, allow_inf_nan=False)] = 60.0
    """A slot of the limit over all cells stays taken for this long when its holder was killed. 60
    is the least that Prefect allows."""

    heartbeat_silence_s: Seconds = 180.0
    """A flow run without a heartbeat for this long counts as dead. Six heartbeats of the bundled
    deployments, so that a server may be away for a while."""

    heartbeat_gap_s: Seconds = 30.0
    """A run that has not asked for heartbeats for this long does not know what it missed, and
    starts to count again."""

    stop_grace_s: Seconds = 25.0
    """Calls in flight get this long to finish after a request to stop. Then they are cut off."""

    pause_poll_s: Seconds = 1.0
    """Time between two checks whether a flow run was paused or cancelled. Calls may still begin
    until the server has answered one of them."""

    stop_check_s: Seconds = 0.25
    """Time between two checks of a waiting call or cell whether the run is to stop."""

    trace_poll_s: Seconds = 0.5
    """Time between two looks of `durabench trace --follow` at the journal."""

    artifact_interval_s: Seconds = 5.0
    """Least time between two updates of the progress artifact. It is for people, and more updates
    only load the server."""

    doctor_check_s: Seconds = 20.0
    """Each check of `durabench doctor` may take this long. One that hangs is reported and left."""

    doctor_fix_s: Seconds = 600.0
    """Removing leftovers with `durabench doctor --fix` may take this long."""

    prune_grace_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 24 * 3600.0
    """`durabench prune` keeps unreferenced files that are younger: somebody may be about to write
    the row that refers to them."""


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
