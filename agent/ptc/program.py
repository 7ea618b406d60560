"""One program of a model: its calls run at the same time, and the journal has their order.

Every call is a task in a scope of its own, and its steps are those of a direct call. Each time that
the program waits for several, an event records which results it is given; that of a single call
needs none. A replay gives it the same results in the same order, so that it makes the same calls.
Live steps wait until the recorded events are used up: a call that was called off in an earlier run
is called off again at that point.
"""

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn, cast

from agent.conversation.offering import KNOWN_ENDS
from agent.errors import CalledOff, InfrastructureError
from agent.ptc import interpreter
from agent.ptc.interpreter import (
    Bounds,
    Called,
    Failed,
    PendingCalls,
    ProgramValue,
    Running,
    Settled,
    Stop,
)
from agent.ptc.stubs import Function, stubs
from agent.ptc.values import as_json
from agent.session.limits import Gate
from agent.session.session import Session

Use = Callable[[str, dict[str, Any], Session], Coroutine[Any, Any, Settled]]
"""Carries out the call of a tool with its arguments, in a scope of its own."""


@dataclass(frozen=True)
class ProgramStart:
    """The start of a program."""

    release: str
    """The interpreter."""
    problem: str
    """The reason why nothing was run, or ''."""


@dataclass(frozen=True)
class ProgramEnd:
    """The end of a program."""

    status: Literal["finished", "failed", "rejected", "crashed"]
    value: Any = None
    error: str = ""
    printed: str = ""
    calls: dict[str, list[str]] = field(default_factory=dict)
    """Names of the tools called, by what became of the calls: done, failed or cancelled."""


async def run(
    code: str,
    functions: Mapping[str, Function],
    use: Use,
    scope: Session,
    bounds: Bounds,
    most_calls: int,
    on_crash: Callable[[], None] = lambda: None,
) -> ProgramEnd:
    """Run a program, or replay it.

    `on_crash` is called when the interpreter died, before that is recorded. If it raises an error,
    the end is not recorded, and a later run continues the program.

    Raises:
        AgentError: a call ended the line of work, and nothing further of the program begins.
        DivergenceError: the program does not wait for the calls that it waited for before.
    """
    async with interpreter.running(stubs(functions.values()), bounds) as running:
        program = _Program(functions, use, scope, running, most_calls, on_crash)
        try:
            return await program.run(code)
        except asyncio.CancelledError:
            program.abandon()
            raise
        finally:
            await program.stop()


class _Program:
    """A program while it runs. Its calls are numbered in the order in which it makes them."""

    def __init__(
        self,
        functions: Mapping[str, Function],
        use: Use,
        scope: Session,
        running: Running,
        most_calls: int,
        on_crash: Callable[[], None],
    ) -> None:
        self._functions = functions
        self._use = use
        self._scope = scope
        self._running = running
        self._most_calls = most_calls
        self._on_crash = on_crash
        self._gate = Gate(is_open=False)
        self._tasks: list[asyncio.Task[Settled]] = []
        self._going: set[int] = set()
        """Calls that were not seen to have ended."""
        self._names: list[str] = []
        self._numbers: dict[int, int] = {}
        self._stops = 0
        """Stops after which it was continued."""
        self._is_catching_up = False
        """True while it waits for calls that are to be given now, whatever else has failed."""

    async def run(self, code: str) -> ProgramEnd:
        stop = await self._running.begin(code)
        rejected = stop.text if isinstance(stop, Failed) and stop.is_rejected else ""
        digest = hashlib.sha256(code.encode()).hexdigest()[:16]
        begun = await self._scope.event(
            "begin",
            {"program": digest},
            _known(ProgramStart(interpreter.RELEASE, rejected)),
            ProgramStart,
        )
        if begun.problem:
            return ProgramEnd("rejected", error=begun.problem)
        if rejected:
            raise InfrastructureError(
                f"a program that {begun.release} has run is refused by {interpreter.RELEASE}: "
                f"install the former to continue. {rejected}",
                retryable=False,
            )
        while isinstance(stop, Called | PendingCalls) and not self._ends_here(stop):
            stop = await self._next(stop)
        return await self._end(stop)

    def _ends_here(self, stop: Stop) -> bool:
        """Return True if the program has made too many calls, or ended here in an earlier run.

        A limit or the death of its worker may have ended it there, and does not end it now.
        """
        if isinstance(stop, Called) and len(self._tasks) >= self._most_calls:
            return True
        return self._recorded == {"event": "end", **self._place}

    @property
    def _recorded(self) -> dict[str, Any]:
        """The request of the next recorded event, or {}."""
        known = self._scope.next_recorded
        return cast("dict[str, Any]", json.loads(known.request)) if known else {}

    @property
    def _place(self) -> dict[str, int]:
        """The position of the program, in the request of an event that ends it."""
        return {"stops": self._stops}

    async def _next(self, stop: Called | PendingCalls) -> Stop:
        self._stops += 1
        if isinstance(stop, Called):
            self._start(stop)
            return await self._running.called()
        given = await self._given(stop)
        return await self._running.settle({id_: self._tasks[n].result() for id_, n in given})

    def _start(self, called: Called) -> None:
        number = len(self._tasks)
        function = self._functions[called.name]
        arguments = dict(zip(function.names, called.positional, strict=False)) | called.named
        scope = self._scope.scope(str(number), gate=self._gate)
        given = {name: as_json(each) for name, each in arguments.items()}
        self._numbers[called.id] = number
        self._names.append(called.name)
        self._going.add(number)
        self._tasks.append(asyncio.create_task(self._carried_out(called.name, given, scope)))

    async def _carried_out(self, name: str, given: dict[str, Any], scope: Session) -> Settled:
        """Carry out a call. If it fails, no step begins until the program knows of that."""
        try:
            settled = await self._use(name, given, scope)
        except Exception:
            self._hold()
            raise
        if "exc_type" in settled:
            self._hold()
        return settled

    def _hold(self) -> None:
        if not self._is_catching_up:
            self._gate.hold()

    async def _given(self, waiting: PendingCalls) -> list[tuple[int, int]]:
        """Return the calls whose results the program is given now: their ids and their numbers.

        A fork gives them in the order of its parent, so that it makes the same calls.
        """
        ids = {self._numbers[each]: each for each in waiting.ids}
        if self._recorded == {"event": "called off", **self._place}:
            await self._repeat_end()
        if not self._recorded:
            self._gate.open()
            await self._first(ids)
        if len(ids) == 1:
            await self._have_ended(ids)
            return [(id_, number) for number, id_ in ids.items()]
        done = [number for number in sorted(ids) if self._tasks[number].done()]
        known = self._scope.next_recorded
        given = await self._scope.event(
            "deliver", {"pending": sorted(ids)}, _known(done), list[int], depends_on={}
        )
        if known is not None and known.copied and not self._recorded:
            self._gate.open()  # a fork knew the order before it had the results
        await self._catch_up(given)
        return [(ids[number], number) for number in given]

    async def _catch_up(self, given: Sequence[int]) -> None:
        """Wait for calls that a fork is to be given. A failure of others comes after them."""
        if all(self._tasks[number].done() for number in given):
            return
        self._is_catching_up = True
        self._gate.release()
        await self._have_ended(given)
        self._is_catching_up = False

    async def _first(self, numbers: Mapping[int, int]) -> None:
        """Wait until one of these calls has ended.

        Raises:
            AgentError: a call ended the line of work.
        """
        while True:
            ended = sorted(number for number in self._going if self._tasks[number].done())
            self._going.difference_update(ended)
            for number in ended:
                if error := _error(self._tasks[number]):
                    await self._pass_on(number, error)
            if any(self._tasks[number].done() for number in numbers):
                return
            self._gate.release()  # it is given no failure now
            going = [self._tasks[number] for number in self._going]
            await asyncio.wait(going, return_when=asyncio.FIRST_COMPLETED)

    async def _have_ended(self, numbers: Iterable[int]) -> None:
        """Wait until all of these calls have ended."""
        going = [task for number in numbers if not (task := self._tasks[number]).done()]
        if going:
            await asyncio.wait(going)

    async def _pass_on(self, number: int, error: BaseException) -> NoReturn:
        """Let the error of a call end the program, and record a known end."""
        if isinstance(error, KNOWN_ENDS):
            await self._scope.event("called off", self._place, _known(number), int)
        raise error

    async def _repeat_end(self) -> NoReturn:
        """End as in an earlier run, by the error of the same call."""
        number = await self._scope.event("called off", self._place, _known(0), int)
        await self._have_ended([number])
        error = _error(self._tasks[number])
        raise error or InfrastructureError(f"call {number} of a program failed before, not now")

    async def _end(self, stop: Stop) -> ProgramEnd:
        """Call off what is in flight, and record the end."""
        await self.stop()
        for task in self._tasks:
            error = _error(task)
            if error is not None and not isinstance(error, CalledOff):
                raise error
        if isinstance(stop, Failed) and stop.is_crash and not self._recorded:
            self._on_crash()
        return await self._scope.event("end", self._place, _known(self._ended(stop)), ProgramEnd)

    async def stop(self) -> None:
        """Let nothing further begin, and wait for what cannot be ended."""
        self._gate.close("its program has ended")
        await self._have_ended(range(len(self._tasks)))
        for task in self._tasks:
            _error(task)  # otherwise asyncio reports its error as forgotten

    def abandon(self) -> None:
        """Cut off everything, even what is paid."""
        for task in self._tasks:
            task.cancel()

    def _ended(self, stop: Stop) -> ProgramEnd:
        calls, printed = self._calls(), self._running.printed
        match stop:
            case ProgramValue(value=value):
                return ProgramEnd("finished", as_json(value), "", printed, calls)
            case Failed(text=text, is_crash=is_crash):
                return ProgramEnd("crashed" if is_crash else "failed", None, text, printed, calls)
            case _:
                many = f"the program made more than {self._most_calls} calls"
                return ProgramEnd("failed", None, many, printed, calls)

    def _calls(self) -> dict[str, list[str]]:
        ends: dict[str, list[str]] = {"done": [], "failed": [], "cancelled": []}
        for name, task in zip(self._names, self._tasks, strict=True):
            ends[_became(task)].append(name)
        return ends


def _became(task: "asyncio.Task[Settled]") -> str:
    if _error(task) is not None:
        return "cancelled"
    return "failed" if "exc_type" in task.result() else "done"


def _error(task: "asyncio.Task[Settled]") -> BaseException | None:
    return asyncio.CancelledError() if task.cancelled() else task.exception()


def _known(value: Any) -> Callable[[], Awaitable[Any]]:
    """Return a function that reads this value."""

    async def read() -> Any:
        return value

    return read


def summary(calls: Mapping[str, list[str]]) -> str:
    """Return what became of the calls, such as `3 calls done, 1 cancelled (read)`."""
    parts = [f"{len(calls.get('done', []))} calls done"]
    for end in ("failed", "cancelled"):
        if names := calls.get(end):
            counted = (f"{name} x {n}" if n > 1 else name for name, n in Counter(names).items())
            parts.append(f"{len(names)} {end} ({', '.join(counted)})")
    return ", ".join(parts)
