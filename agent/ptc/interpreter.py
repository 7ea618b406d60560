"""The interpreter of programs, Monty, in separate worker processes.

A program suspends at each call of a tool, and again when it can only wait for calls.
"""

import asyncio
import datetime
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import pydantic_monty as monty

from agent.ptc.limits import Programs

RELEASE = f"pydantic-monty {monty.__version__}"

_MAX_WORKERS = 1024
"""A program holds its worker while it waits, so fewer workers than programs could deadlock."""

# Neither a clock nor chance: a replay computes the same.
_POLICY: monty.OSPolicy = {
    "datetime": datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
    "sleep": "zero",
    "random_start": {"seed": 0},
}


@dataclass(frozen=True)
class Called:
    """The program has called a tool."""

    id: int
    name: str
    positional: tuple[Any, ...]
    named: dict[str, Any]


@dataclass(frozen=True)
class PendingCalls:
    """The program waits for one of these calls."""

    ids: list[int]


@dataclass(frozen=True)
class ProgramValue:
    """The program has ended with the value of its last expression."""

    value: Any


@dataclass(frozen=True)
class Failed:
    """The program has ended by an error."""

    text: str
    is_rejected: bool = False
    """True if the check of its syntax and types failed, so that nothing was run."""
    is_crash: bool = False
    """True if the interpreter died."""


Stop = Called | PendingCalls | ProgramValue | Failed
Settled = dict[str, Any]
"""`return_value`, or `exc_type` and `message`."""

_CALLED: Any = {"future": ...}


class Running:
    """One program in the interpreter."""

    def __init__(self, session: monty.AsyncMontySession, printed_bytes: int) -> None:
        self._session = session
        self._output = monty.CollectString(max_bytes=printed_bytes)
        self._at: Any = None

    @property
    def printed(self) -> str:
        """The output of the program so far."""
        return self._output.output

    async def begin(self, code: str) -> Stop:
        """Check the program, and run it until it stops."""
        return await self._until_stop(self._session.feed_start(code, print_callback=self._output))

    async def continue_during_call(self) -> Stop:
        """Continue the program while the call that it stopped at runs."""
        return await self._until_stop(self._at.resume(_CALLED))

    async def settle(self, results: Mapping[int, Settled]) -> Stop:
        """Give the program the results of calls, and continue it."""
        return await self._until_stop(self._at.resume(dict(results)))

    async def _until_stop(self, continuation: Any) -> Stop:
        while True:
            try:
                self._at = at = await continuation
            except (monty.MontySyntaxError, monty.MontyTypingError) as error:
                return Failed(error.display().strip(), is_rejected=True)
            except monty.MontyCrashedError as error:
                return Failed(f"the interpreter died: {error}", is_crash=True)
            except monty.MontyRuntimeError as error:
                return Failed(error.display().strip())
            except monty.MontyError as error:
                return Failed(str(error))
            match at:
                case monty.MontyComplete():
                    try:
                        return ProgramValue(at.output)
                    except monty.MontyError as error:
                        return Failed(f"the value of the program cannot be used: {error}")
                case monty.AsyncFutureSnapshot():
                    return PendingCalls(sorted(at.pending_call_ids))
                case monty.AsyncFunctionSnapshot() if not at.is_os_function:
                    return Called(at.call_id, str(at.function_name), at.args, dict(at.kwargs))
                case monty.AsyncFunctionSnapshot():
                    continuation = at.resume_not_handled()
                case _:  # an unknown name
                    continuation = at.resume()


@dataclass
class _Pool:
    """The workers of one event loop, which live while there are programs."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0
    workers: monty.AsyncMonty | None = None


_POOLS: WeakKeyDictionary[asyncio.AbstractEventLoop, _Pool] = WeakKeyDictionary()


@asynccontextmanager
async def _workers() -> AsyncIterator[monty.AsyncMonty]:
    pool = _POOLS.setdefault(asyncio.get_running_loop(), _Pool())
    async with pool.lock:
        if pool.workers is None:
            pool.workers = monty.AsyncMonty(min_processes=1, max_processes=_MAX_WORKERS)
            await pool.workers.__aenter__()
        pool.users += 1
        current = pool.workers
    try:
        yield current
    finally:
        async with pool.lock:
            pool.users -= 1
            if pool.users == 0:
                pool.workers = None
                await current.__aexit__(None, None, None)


@asynccontextmanager
async def running(stubs: str, limits: Programs) -> AsyncIterator[Running]:
    """Provide an interpreter for one program that can use the declarations of the stubs."""
    resources: monty.ResourceLimits = {
        "max_feed_duration_secs": limits.seconds,
        "max_memory": limits.memory_mb * 1_000_000,
        "max_recursion_depth": limits.recursion,
        "max_suspensions": 4 * limits.calls + 1000,  # which calls alone never reach
    }
    async with _workers() as pool:
        checkout = pool.checkout(
            script_name="program.py",
            limits=resources,
            type_check=True,
            type_check_stubs=stubs,
            type_check_format="concise",
            os_policy=_POLICY,
        )
        async with checkout as session:
            yield Running(session, limits.output_kb * 1000)
