"""A request of a program becomes a recorded call. What ends the attempt ends the program."""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from agent.errors import ContextWindowExceeded, RequestRefused
from agent.gateway import bodies
from agent.gateway.calls import Calls
from agent.models.protocol import Foreign
from agent.models.requests import Dialect, ProviderTools
from agent.session.steps import canonical, digest

_NOT_SENT = ("model", "stream", "stream_options", "background")
_HEADERS = ("anthropic-beta", "openai-beta")
_LONGEST_NAME = 100
_LONGEST_REASON = 300
_MOST_NAMES = 100
"""Names that are counted separately. A program can invent more than fit into memory."""

_MOST_REFUSED = 100
"""Refused requests of one run, which are recorded. A program that sends more does not work."""

AGENT = "agent"
"""The role of every call whose requested model is not mapped to another role."""


@dataclass(frozen=True)
class Answered:
    """An answer, or an error with status 400."""

    body: dict[str, Any]
    is_error: bool = False


@dataclass
class GatewayObservations:
    """Observations of the gateway in one run of a program."""

    first_request_s: float | None = None
    """Seconds until the first request; None without one."""
    requested_models: Counter[str] = field(default_factory=Counter)
    """Number of requests for each model name. The names do not choose the model."""
    server_tools: Counter[str] = field(default_factory=Counter)
    """Requests by the tools that the provider would run, which were left out or refused."""
    dropped_fields: Counter[str] = field(default_factory=Counter)
    """Requests by the names of fields that were not sent, because they are not supported."""
    cut_streams: int = 0
    """Answers that the program did not wait for."""
    invalid_requests: int = 0
    """Requests that are invalid, or that the provider refused."""
    long_requests: int = 0
    """Requests with a conversation that is longer than the model can read."""
    unknown_routes: Counter[str] = field(default_factory=Counter)
    """Requests that no route answers, by method and path."""
    first_refusal: str = ""
    """The reason of the first refused request."""

    def refuse(self, reason: str) -> None:
        """Note why a request is refused, if it is the first one."""
        line = " ".join(reason.removeprefix("refused: ").split())
        self.first_refusal = self.first_refusal or line[:_LONGEST_REASON]

    def miss(self, route: str, reason: str) -> None:
        """Count a request that no route answers."""
        _count(self.unknown_routes, route)
        self.refuse(reason)


class Switch:
    """Answers the requests of one run of a program."""

    def __init__(self, calls: Calls, roles: Mapping[str, str]) -> None:
        """`roles` maps patterns of model names to roles, the first that fits."""
        self.seen = GatewayObservations()
        self._started_at = time.monotonic()
        self.failed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        """Has a result as soon as an error ends the attempt."""
        self._calls = calls
        self._roles = roles
        self._running: set[asyncio.Task[Answered]] = set()
        self._refused_by_provider = 0
        self._undelivered: dict[str, list[asyncio.Task[Answered]]] = defaultdict(list)

    def ask(
        self, dialect: Dialect, body: dict[str, Any], headers: Mapping[str, str]
    ) -> "GatewayCall":
        """Start to answer a request. A repetition of an abandoned request gets its answer."""
        model = str(body.get("model") or "")[:_LONGEST_NAME]
        foreign = Foreign(
            dialect,
            {name: value for name, value in body.items() if name not in _NOT_SENT},
            {name: headers[name] for name in _HEADERS if name in headers},
            may_fetch=self._calls.network,
        )
        if self._undelivered and (tasks := self._undelivered.get(_key(foreign, model))):
            return GatewayCall(self, foreign, model, tasks.pop(0))
        _count(self.seen.requested_models, model)
        if self.seen.first_request_s is None:
            self.seen.first_request_s = time.monotonic() - self._started_at
        task = asyncio.create_task(self._answer(foreign, model))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return GatewayCall(self, foreign, model, task)

    def retain(self, call: "GatewayCall") -> None:
        """Keep an undelivered answer for a repetition of its request."""
        self.seen.cut_streams += 1
        task = call.task
        if not (task.done() and (task.cancelled() or task.result().is_error)):
            self._undelivered[_key(call.foreign, call.model)].append(task)

    async def settle(self) -> None:
        """Wait for the calls in flight, which are recorded."""
        await asyncio.gather(*self._running, return_exceptions=True)

    async def cancel(self) -> None:
        """Cut off the calls in flight."""
        for task in self._running:
            task.cancel()
        await self.settle()

    async def _answer(self, foreign: Foreign, model: str) -> Answered:
        try:
            for name in foreign.asked.dropped:
                _count(self.seen.dropped_fields, name)
            for name in foreign.asked.provider_tools:
                _count(self.seen.server_tools, name)
            if self.failed.done():
                raise RequestRefused("the attempt has ended")
            if self._refused_by_provider >= _MOST_REFUSED:
                raise RequestRefused(f"{_MOST_REFUSED} requests were refused, so no more are sent")
            roles = (role for names, role in self._roles.items() if fnmatchcase(model, names))
            reply = await self._calls.call(foreign, next(roles, AGENT), model)
        except ProviderTools as error:
            for name in error.names:
                _count(self.seen.server_tools, name)
            self.seen.refuse(str(error))
            return _refusal(foreign.dialect, str(error))
        except ContextWindowExceeded as error:
            self.seen.long_requests += 1
            self._refused_by_provider += 1
            message = str(error)
            # Clients of Anthropic recognise a long conversation by these words.
            if foreign.dialect == "messages" and "prompt is too long" not in message:
                message = f"prompt is too long: {message}"
            return _refusal(foreign.dialect, message, "context_length_exceeded")
        except RequestRefused as error:
            self.seen.invalid_requests += 1
            self.seen.refuse(str(error))
            self._refused_by_provider += 1
            return _refusal(foreign.dialect, str(error))
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # ends the attempt, whatever it is
            if not self.failed.done():
                self.failed.set_result(error)
            return _refusal(foreign.dialect, f"stop: {type(error).__name__}: {error}")
        assert reply.foreign is not None, "the model answered in the dialect of the request"
        return Answered(reply.foreign)


@dataclass
class GatewayCall:
    """One request of a program while it is answered."""

    switch: Switch
    foreign: Foreign
    model: str
    """The name of the requested model."""
    task: asyncio.Task[Answered]

    async def within(self, seconds: float) -> Answered | None:
        """Return the answer, or None if there is none yet after some seconds."""
        await asyncio.wait({self.task}, timeout=seconds)
        return self.task.result() if self.task.done() else None

    def mark_undelivered(self) -> None:
        """Record that the program no longer waits."""
        self.switch.retain(self)


def _key(foreign: Foreign, model: str) -> str:
    """Return the digest that identifies repetitions of a request."""
    return digest(canonical({"asked": [model, foreign.dialect, foreign.headers, foreign.body]}))


def _count(counter: Counter[str], name: str) -> None:
    """Count a name that a program can choose freely."""
    name = name[:_LONGEST_NAME]
    counter[name if name in counter or len(counter) < _MOST_NAMES else "..."] += 1


def _refusal(dialect: Dialect, message: str, code: str | None = None) -> Answered:
    return Answered(bodies.error_body(dialect, message, code), is_error=True)
