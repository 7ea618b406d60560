"""Requests to the Prefect server, repeated while it is unreachable: a restart fails no paid work.

Retry also what fails because another program has created the same object at the same moment.
"""

from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

import httpx
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.responses import DeploymentResponse
from prefect.concurrency.asyncio import ConcurrencySlotAcquisitionError
from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry,
    retry_if_exception,
    retry_if_exception_type,
    stop_after_attempt,
    stop_after_delay,
    wait_fixed,
)

from agent.timings import timings
from flows.display.terminal import say

P = ParamSpec("P")
T = TypeVar("T")

beside_others = retry(
    retry=retry_if_exception_type(ObjectAlreadyExists), stop=stop_after_attempt(4), reraise=True
)
"""Decorates a function that looks for objects on the server and creates the missing ones.

If another program creates one in between, the next attempt finds it. At most three are in a
function: the type, the schema and the document of a block.
"""


async def patiently(
    ask: Callable[P, Awaitable[T]], /, *arguments: P.args, **options: P.kwargs
) -> T:
    """Return the server's answer, retrying while the server is unreachable or has an error.

    Raises:
        httpx.HTTPError: the server is unreachable for longer than `Timings.server_patience_s`, or
            returns an error.
        ConcurrencySlotAcquisitionError: the same, for a concurrency slot.
    """

    def announce(state: RetryCallState) -> None:
        if state.attempt_number == 1:
            say("the Prefect server does not answer; cells keep running, and requests are retried")

    retrying = AsyncRetrying(
        retry=retry_if_exception(_is_away),
        stop=stop_after_delay(timings().server_patience_s),
        wait=wait_fixed(timings().server_retry_s),
        before_sleep=announce,
        reraise=True,
    )

    async def answer() -> T:  # tenacity would not await what a plain function returns
        return await ask(*arguments, **options)

    return await retrying(answer)


def _is_away(error: BaseException | None) -> bool:
    if isinstance(error, ConcurrencySlotAcquisitionError):
        error = error.__cause__
    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code >= httpx.codes.INTERNAL_SERVER_ERROR
    return isinstance(error, httpx.TransportError)


async def find_deployment(client: PrefectClient, name: str) -> DeploymentResponse | None:
    """Return the deployment of a name such as `job/job`, or None if the server has none."""
    try:
        return await client.read_deployment_by_name(name)
    except ObjectNotFound:
        return None
