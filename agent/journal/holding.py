"""Hold the lease of an attempt while it is worked on."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress

from agent.errors import FencedError, JournalError, LeaseHeld
from agent.journal import Journal, Lease
from agent.timings import STOP_CHECK_S, timings
from agent.workspaces import ownership

POLL_S = 1.0
"""Interval between checks whether another worker still has a lease."""

_HERE: set[tuple[int, str, str]] = set()
"""Leases that a process holds, by process id, journal and name.

The journal does not distinguish tasks. A forked process inherits the set of its parent."""


@asynccontextmanager
async def hold_lease(
    journal: Journal, attempt_id: str, ttl_s: float | None = None
) -> AsyncIterator[Lease]:
    """Hold the lease of an attempt, and renew it until the block ends.

    It is also acquired from a worker of this machine that died while holding it.
    Each renewal is for `ttl_s` seconds, by default `Timings.lease_s`.

    Raises:
        LeaseHeld: an active worker has the lease, or another task of this process.
        FencedError: the lease was lost during the block; the block was cancelled.
    """
    key = (os.getpid(), journal.id, attempt_id)
    if key in _HERE:
        raise LeaseHeld(f"{attempt_id} is held by this process", attempt_id)
    _HERE.add(key)
    try:
        ttl_s = timings().lease_s if ttl_s is None else ttl_s
        if previous := await asyncio.to_thread(journal.holder, attempt_id):
            await asyncio.to_thread(expire_dead, journal, {attempt_id: previous})
        lease = await asyncio.to_thread(journal.acquire, attempt_id, worker(), ttl_s)
        holder = asyncio.current_task()
        assert holder is not None
        heart = asyncio.create_task(_beat(journal, lease, ttl_s, holder))
        try:
            yield lease
        except asyncio.CancelledError:
            if heart.done() and not heart.cancelled() and (lost := heart.exception()):
                holder.uncancel()
                raise lost from None
            raise
        finally:
            heart.cancel()
            # An unreachable journal has already been reported. The lease expires by itself.
            with suppress(JournalError):
                await asyncio.to_thread(journal.release, lease)
    finally:
        _HERE.discard(key)


@asynccontextmanager
async def hold_one(
    journal: Journal, names: Sequence[str], sleep: Callable[[float], Awaitable[None]]
) -> AsyncIterator[None]:
    """Hold one of several leases, which are no attempts', in the block, once one is free.

    Raises:
        FencedError: the lease was lost during the block; the block was cancelled.
    """
    async with AsyncExitStack() as stack:
        while not await _take_one(journal, names, stack):
            await sleep(STOP_CHECK_S)
        yield


async def _take_one(journal: Journal, names: Sequence[str], stack: AsyncExitStack) -> bool:
    """Hold the first free lease until the stack is closed. Return False if there is none."""
    for name in names:
        if is_held_here(journal, name):
            continue
        await asyncio.to_thread(journal.offer, name)
        with suppress(LeaseHeld):
            await stack.enter_async_context(hold_lease(journal, name))
            return True
    return False


def is_held_here(journal: Journal, name: str) -> bool:
    """Return True if a task of this process has the lease of that name."""
    return (os.getpid(), journal.id, name) in _HERE


async def check_free(journal: Journal, name: str) -> None:
    """Return if no active worker and no task of this process has the lease of that name.

    Raises:
        LeaseHeld: one of them has it.
    """
    if holder := await asyncio.to_thread(_other, journal, name):
        raise LeaseHeld(f"{name} is held by {holder}", name)


async def wait_until_free(
    journal: Journal, name: str, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> None:
    """Wait until no active worker and no task of this process has the lease of that name."""
    while await asyncio.to_thread(_other, journal, name):
        await sleep(POLL_S)


def _other(journal: Journal, name: str) -> str | None:
    """Return the active worker that has the lease. A lease that this process left is free."""
    if is_held_here(journal, name):
        return worker()
    holder = journal.holder(name)
    return None if holder is None or holder == worker() or is_dead(holder) else holder


async def _beat(
    journal: Journal, lease: Lease, ttl_s: float, holder: "asyncio.Task[object]"
) -> None:
    while True:
        await asyncio.sleep(ttl_s / 3)
        try:
            await asyncio.to_thread(journal.renew, lease, ttl_s)
        except FencedError:
            holder.cancel()
            raise
        except JournalError:
            continue  # no other worker can acquire the attempt while the database is unreachable


def expire_dead(journal: Journal, holders: Mapping[str, str]) -> bool:
    """Expire the leases of workers of this machine that have died. Return True if there was one.

    `holders` are workers by the names of their leases.
    """
    dead = {name: holder for name, holder in holders.items() if is_dead(holder)}
    for name, holder in dead.items():
        journal.expire(name, holder)
    return bool(dead)


def worker() -> str:
    """Return a name for this process that is unique among all workers that may share a journal."""
    return f"{ownership.owner()}/{ownership.process()}"


def is_dead(name: str) -> bool:
    """Return True if a worker was a process of this user and machine that has ended."""
    owner, _, process = name.partition("/")
    return owner == ownership.owner() and not ownership.lives(process)
