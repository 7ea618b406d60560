"""Opening and closing that cancellation cannot interrupt."""

import asyncio
from collections.abc import Coroutine
from typing import TypeVar

T = TypeVar("T")


async def uninterrupted(work: Coroutine[object, object, T]) -> T:
    """Await `work` to its end, even if cancelled meanwhile, and only then raise the cancellation.

    A container whose creation is abandoned half-way would have no owner.
    """
    task = asyncio.ensure_future(work)
    cancelled = False
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            cancelled = True
        except Exception:  # noqa: S110 - result() below raises it
            pass
    result = task.result()
    if cancelled:
        raise asyncio.CancelledError
    return result
