"""One program of a model: its calls run at the same time, and the journal has their order.

Every call is a task in a separate scope, with the same steps as a direct call. Whenever the program
waits for several calls, an event records which results it gets. A replay gives it the same results
in the same order, so that it makes the same calls. Live steps wait until the recorded events are
used up: a call that was called off in an earlier run is called off again at that point.
"""

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

from agent.conversation.offering import KNOWN_ENDS
from agent.errors import CalledOff, InfrastructureError
from agent.limits import Programs
from agent.ptc import interpreter
from agent.ptc.interpreter import (
    Called,
    Failed,
    PendingCalls,
    ProgramValue,
    Running,
    Settled,
    Stop,
)
from agent.ptc.remedies import explain, find_last_assignment
from agent.ptc.stubs import Function
from agent.ptc.values import as_json
from agent.session.limits import Gate
from agent.session.session import Session

Use = Callable[[str, dict[str, Any], Session], Coroutine[Any, Any, Settled]]
"""Executes the call of a tool with its arguments, in a separate scope."""


@dataclass(frozen=True)
class ProgramStart:
    """The start of a program."""

    release: str
    """The interpreter."""
    problem: str
    """The reason why nothing was run, or ''."""
    notes: str = ""
    """Suspicions of the type checker, or ''."""


@dataclass(frozen=True)
class ProgramEnd:
    """The end of a program."""

    status: Literal["finished", "failed", "rejected", "crashed"]
    value: Any = None
    error: str = ""
    notes: str = ""
    """Help to understand the error or the missing value, or ''."""
    printed: str = ""
    calls: dict[str, list[str]] = field(default_factory=dict)
    """Names of the called tools, by the ends of the calls: done, failed or cancelled."""


async def run(
    code: str,
    functions: Mapping[str, Function],
    use: Use,
    scope: Session,
    limits: Programs,
    on_crash: Callable[[], None] = lambda: None,
) -> ProgramEnd:
    """Run a program, or replay it.

    `on_crash` is called when the interpreter died, before that is recorded. If it raises an error,
    the end is not recorded, and a later run continues the program.

    Raises:
        AgentError: a call ended the line of work, and the program does not continue.
        DivergenceError: the program does not wait for the calls that it waited for before.
    """
    async with interpreter.running(functions.values(), limits) as running:
        program = _Program(functions, use, scope, running, limits, on_crash)
        try:
            return await program.run(code)
        except asyncio.CancelledError:
            program.abandon()
            raise
        finally:
            await program.stop()


@dataclass
class _Program:
    """A program while it runs. Its calls are numbered in the order in which it makes them."""

    functions: Mapping[str, Function]
    use: Use
    scope: Session
    running: Running
    limits: Programs
    on_crash: Callable[[], None]
    gate: Gate = field(default_factory=lambda: Gate(is_open=False))
    tasks: "list[asyncio.Task[Settled]]" = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    numbers: dict[int, int] = field(default_factory=dict)
    """The numbers of calls by the interpreter's ids."""
    unfinished: set[int] = field(default_factory=set)
    """Calls that have not been observed to end."""
    stops: int = 0
    """Stops after which it was continued."""
    is_catching_up: bool = False
    """True while it waits for results that it must get now, whatever else has failed."""

    async def run(self, code: str) -> ProgramEnd:
        async def check() -> ProgramStart:
            opinion = await self.running.check(code)
            return ProgramStart(interpreter.RELEASE, opinion.problem, opinion.notes)

        digest = hashlib.sha256(code.encode()).hexdigest()[:16]
        start = await self.scope.event(
            "begin",
            {"program": digest},
            check,
            ProgramStart,
        )
        if start.problem:
            return ProgramEnd("rejected", error=start.problem)
        stop = await self.running.begin(code)
        if isinstance(stop, Failed) and stop.is_rejected:
            raise InfrastructureError(
                f"a program that {start.release} has run is refused by {interpreter.RELEASE}: "
                f"install the former to continue. {stop.text}",
                retryable=False,
            )
        while isinstance(stop, Called | PendingCalls):
            if isinstance(stop, Called) and len(self.tasks) >= self.limits.calls:
                break
            if self._recorded == {"event": "end", **self._place}:
                break  # a limit or the death of its worker ended it here in an earlier run
            self.stops += 1
            if isinstance(stop, Called):
                self._start(stop)
                stop = await self.running.continue_during_call()
            else:
                calls = await self._wait(stop)
                results = {call_id: self.tasks[number].result() for call_id, number in calls}
                stop = await self.running.settle(results)
        return await self._end(code, stop, start.notes)

    @property
    def _recorded(self) -> dict[str, Any]:
        """The request of the next recorded event, or {}."""
        event = self.scope.next_recorded
        return cast("dict[str, Any]", json.loads(event.request)) if event else {}

    @property
    def _place(self) -> dict[str, int]:
        """The position of the program, in the request of an event that ends it."""
        return {"stops": self.stops}

    def _start(self, called: Called) -> None:
        number = len(self.tasks)
        function = self.functions[called.name]
        arguments = dict(zip(function.names, called.positional, strict=False)) | called.named
        scope = self.scope.scope(str(number), gate=self.gate)
        values = {name: as_json(value) for name, value in arguments.items()}
        self.numbers[called.id] = number
        self.names.append(called.name)
        self.unfinished.add(number)
        self.tasks.append(asyncio.create_task(self._execute(called.name, values, scope)))

    async def _execute(self, name: str, arguments: dict[str, Any], scope: Session) -> Settled:
        """Execute a call. If it fails, no step starts until the program gets the failure."""
        has_failed = False
        try:
            settled = await self.use(name, arguments, scope)
            has_failed = "exc_type" in settled
            return settled
        except Exception:
            has_failed = True
            raise
        finally:
            if has_failed and not self.is_catching_up:
                self.gate.hold()

    async def _wait(self, pending: PendingCalls) -> list[tuple[int, int]]:
        """Return the calls whose results the program gets now: their ids and their numbers.

        A fork delivers them in the order of its parent, so that it makes the same calls.
        """
        ids = {self.numbers[call_id]: call_id for call_id in pending.ids}
        if self._recorded == {"event": "called off", **self._place}:
            number = await self.scope.event("called off", self._place, _constant(0), int)
            await self._wait_for_all([number])
            error = _error(self.tasks[number])
            raise error or InfrastructureError(f"call {number} of a program failed before, not now")
        if not self._recorded:
            self.gate.open()
            await self._wait_for_any(ids)
        if len(ids) == 1:
            await self._wait_for_all(ids)
            return [(call_id, number) for number, call_id in ids.items()]
        done = [number for number in sorted(ids) if self.tasks[number].done()]
        event = self.scope.next_recorded
        delivered = await self.scope.event(
            "deliver", {"pending": sorted(ids)}, _constant(done), list[int], depends_on={}
        )
        if event is not None and event.copied and not self._recorded:
            self.gate.open()  # a fork had the order before it had the results
        if not all(self.tasks[number].done() for number in delivered):
            # A failure of other calls comes after these.
            self.is_catching_up = True
            self.gate.release()
            await self._wait_for_all(delivered)
            self.is_catching_up = False
        return [(ids[number], number) for number in delivered]

    async def _wait_for_any(self, numbers: Iterable[int]) -> None:
        """Wait until one of these calls has ended."""
        while True:
            ended = sorted(number for number in self.unfinished if self.tasks[number].done())
            self.unfinished.difference_update(ended)
            for number in ended:
                if error := _error(self.tasks[number]):
                    if isinstance(error, KNOWN_ENDS):
                        await self.scope.event("called off", self._place, _constant(number), int)
                    raise error
            if any(self.tasks[number].done() for number in numbers):
                return
            self.gate.release()  # the program gets no failure now
            tasks = [self.tasks[number] for number in self.unfinished]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)

    async def _wait_for_all(self, numbers: Iterable[int]) -> None:
        """Wait until all of these calls have ended."""
        tasks = [task for number in numbers if not (task := self.tasks[number]).done()]
        if tasks:
            await asyncio.wait(tasks)

    async def _end(self, code: str, stop: Stop, notes: str) -> ProgramEnd:
        """Call off what is in flight, and record the end."""
        await self.stop()
        for task in self.tasks:
            error = _error(task)
            if error is not None and not isinstance(error, CalledOff):
                raise error
        if isinstance(stop, Failed) and stop.is_crash and not self._recorded:
            self.on_crash()
        calls: dict[str, list[str]] = {"done": [], "failed": [], "cancelled": []}
        for name, task in zip(self.names, self.tasks, strict=True):
            if _error(task) is not None:
                calls["cancelled"].append(name)
            else:
                calls["failed" if "exc_type" in task.result() else "done"].append(name)
        printed = self.running.printed
        match stop:
            case ProgramValue(value=value):
                name = find_last_assignment(code) if value is None else ""
                hint = f"write `{name}` below the last line to see its value" if name else ""
                end = ProgramEnd("finished", as_json(value), "", hint, printed, calls)
            case Failed(text=text, is_crash=is_crash):
                text = explain(text, self.limits, self.functions.values())
                end = ProgramEnd("failed", None, text, notes, printed, calls)
                end = replace(end, status="crashed") if is_crash else end
            case _:
                most = self.limits.calls
                problem = f"the program made more than {most} calls, the limit for one: split it"
                end = ProgramEnd("failed", None, problem, "", printed, calls)
        return await self.scope.event("end", self._place, _constant(end), ProgramEnd)

    async def stop(self) -> None:
        """Let no further steps start, and wait for calls that cannot be ended."""
        self.gate.close("its program has ended")
        await self._wait_for_all(range(len(self.tasks)))
        for task in self.tasks:
            _error(task)  # otherwise asyncio reports its error as forgotten

    def abandon(self) -> None:
        """Cut off everything, even paid calls."""
        for task in self.tasks:
            task.cancel()


def _error(task: "asyncio.Task[Settled]") -> BaseException | None:
    return asyncio.CancelledError() if task.cancelled() else task.exception()


def _constant(value: Any) -> Callable[[], Awaitable[Any]]:
    """Return a function that reads this value."""

    async def read() -> Any:
        return value

    return read


def summary(calls: Mapping[str, list[str]]) -> str:
    """Return the ends of the calls as text, such as `3 calls done, 1 cancelled (read)`."""
    done = len(calls.get("done", []))
    parts = ["1 call done" if done == 1 else f"{done} calls done"]
    for end in ("failed", "cancelled"):
        if names := calls.get(end):
            counted = (f"{name} x {n}" if n > 1 else name for name, n in Counter(names).items())
            parts.append(f"{len(names)} {end} ({', '.join(counted)})")
    return ", ".join(parts)
