"""The token of a forge from a Secret block of a Prefect server."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from prefect.blocks.system import Secret

from flows.display.errors import UsageError
from flows.jobs.request import JobSettings, using_token


@asynccontextmanager
async def forge_token(settings: JobSettings) -> AsyncIterator[None]:
    """Use the token in the Secret block that a job names during the block.

    Without a name, the token of the environment counts.

    Raises:
        UsageError: there is no such block, or it holds no text.
    """
    if settings.token_block is None:
        yield
        return
    with using_token(await _token(settings.token_block)):
        yield


async def _token(name: str) -> str:
    try:
        block: Secret[str] = await Secret.aload(name)
    except ValueError:
        raise UsageError(
            f"the Prefect server has no Secret block {name!r}: create it under Blocks in its UI, "
            "or leave token_block out and set DURABENCH_FORGE_TOKEN"
        ) from None
    token = block.value.get_secret_value()
    if not isinstance(token, str) or not token:
        raise UsageError(f"the Secret block {name!r} holds no text: a token is expected")
    return token
