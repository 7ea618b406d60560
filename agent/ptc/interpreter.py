"""The interpreter of programs, Monty, in separate worker processes.

A program suspends at each call of a tool, and again when it can only wait for calls.
"""

import asyncio
import datetime
import re
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import pydantic_monty as monty

from agent.limits import Programs
from agent.ptc.remedies import KNOWN_NAMES, PRELUDE, Opinion, judge, translate
from agent.ptc.stubs import Function, stubs

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

    def __init__(
        self, session: monty.AsyncMontySession, functions: Collection[Function], output_kb: int
    ) -> None:
        self._session = session
        self._functions = functions
        self._tools = {function.name: _as_value(function) for function in functions}
        self._output_kb = output_kb
        self._prints: list[str] = []
        self._room = output_kb * 1000
        self._at: Any = None
        self._first: Stop | None = None
        """The first stop of a program that was checked."""

    @property
    def printed(self) -> str:
        """The output of the program so far, as far as there is room for it."""
        rest = f"\n[prints beyond {self._output_kb} kB are left out]" if self._room < 0 else ""
        return "".join(self._prints) + rest

    def _print(self, stream: str, text: str) -> None:
        self._prints.append(text[: max(0, self._room)])
        self._room -= len(text)

    async def check(self, code: str) -> Opinion:
        """Return the opinion of the type checker. Without a problem, the program runs."""
        opinion = Opinion("", "")
        stop = await self._feed(code, skip_type_check=False)
        if isinstance(stop, Failed) and stop.is_rejected:
            opinion = judge(stop.text, code, self._functions)
            if not opinion.problem:
                stop = await self._feed(code, skip_type_check=True)
        self._first = stop
        return opinion

    async def begin(self, code: str) -> Stop:
        """Run the program until it stops."""
        return self._first or await self._feed(code, skip_type_check=True)

    async def _feed(self, code: str, *, skip_type_check: bool) -> Stop:
        return await self._until_stop(
            self._session.feed_start(
                translate(code), print_callback=self._print, skip_type_check=skip_type_check
            )
        )

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
                return Failed(_INPUT.sub("program.py", error.display().strip()))
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
                case monty.AsyncFunctionSnapshot() if _is_of_files(at):
                    # A PermissionError would make Path.rglob find nothing, without a word.
                    problem = f"programs have no {at.function_name}"
                    continuation = at.resume(_failure("RuntimeError", problem))
                case monty.AsyncFunctionSnapshot() if at.is_os_function:
                    continuation = at.resume_not_handled()
                case monty.AsyncFunctionSnapshot() if at.function_name in self._tools:
                    return Called(at.call_id, str(at.function_name), at.args, dict(at.kwargs))
                case monty.AsyncFunctionSnapshot():  # in the text of an `eval`
                    problem = f"name '{at.function_name}' is not defined"
                    continuation = at.resume(_failure("NameError", problem))
                case monty.AsyncNameLookupSnapshot() if at.variable_name in self._tools:
                    continuation = at.resume(value=self._tools[at.variable_name])
                case _:  # an unknown name
                    continuation = at.resume()


_INPUT = re.compile("<python-input-[0-9]+>")


def _as_value(function: Function) -> Any:
    """Return a tool as a value, whose calls the interpreter reports by its name."""

    def tool() -> None:
        raise AssertionError("the interpreter calls tools by their names")

    tool.__name__ = function.name
    return tool


def _is_of_files(at: monty.AsyncFunctionSnapshot) -> bool:
    return at.is_os_function and str(at.function_name).startswith(("Path.", "os."))


def _failure(kind: str, message: str) -> Any:
    return {"exc_type": kind, "message": message}


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
async def running(functions: Collection[Function], limits: Programs) -> AsyncIterator[Running]:
    """Provide an interpreter for one program that can call these functions."""
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
            type_check_stubs=f"{stubs(functions)}{KNOWN_NAMES}",
            type_check_format="concise",
            os_policy=_POLICY,
        )
        async with checkout as session:
            await session.feed_start(PRELUDE, skip_type_check=True)
            yield Running(session, functions, limits.output_kb)
