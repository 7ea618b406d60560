"""A request of a program becomes a recorded call. What ends the attempt ends the program."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from agent.errors import ContextWindowExceeded, RequestRefused
from agent.gateway import bodies
from agent.gateway.calls import Calls
from agent.models.protocol import Foreign, ModelReply
from agent.models.requests import Dialect, ProviderTools
from agent.session.steps import canonical, digest

_NOT_SENT = ("model", "stream", "stream_options", "background")
_LONGEST_NAME = 100
_MOST_NAMES = 100
"""Names that are counted one by one. A program may invent more than there is memory for."""

_MOST_REFUSED = 100
"""Refused requests of one run, which are recorded. A program that sends more does not work."""

_HEADERS = ("anthropic-beta", "openai-beta")

AGENT = "agent"
"""The role of every call whose requested model has none of its own."""


@dataclass(frozen=True)
class Answered:
    """An answer, or an error with status 400."""

    body: dict[str, Any]
    is_error: bool = False


@dataclass
class GatewayObservations:
    """Observations of the gateway in one run of a program."""

    requested_models: Counter[str] = field(default_factory=Counter)
    """Number of requests for each model name. The names are never obeyed."""
    server_tools: Counter[str] = field(default_factory=Counter)
    """Requests for tools that the provider would run, which were refused."""
    dropped_fields: Counter[str] = field(default_factory=Counter)
    """Requests by the names of fields that were not sent, because no dialect here has them."""
    cut_streams: int = 0
    """Answers that the program did not wait for."""
    invalid_requests: int = 0
    """Requests that no provider would accept, or that this one refused."""


class Switch:
    """Answers the requests of one run of a program."""

    def __init__(self, calls: Calls, roles: Mapping[str, str]) -> None:
        """`roles` maps patterns of model names to roles, the first that fits."""
        self.seen = GatewayObservations()
        self.failed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        """Has a result as soon as an error ends the attempt."""
        self._calls = calls
        self._roles = roles
        self._running: set[asyncio.Task[Answered]] = set()
        self._refused_by_provider = 0
        self._left: dict[str, list[asyncio.Task[Answered]]] = defaultdict(list)

    def ask(
        self, dialect: Dialect, body: dict[str, Any], headers: Mapping[str, str]
    ) -> "GatewayCall":
        """Begin to answer a request. A repetition of one that was given up gets its answer."""
        asked = str(body.get("model") or "")[:_LONGEST_NAME]
        foreign = Foreign(
            dialect,
            {name: each for name, each in body.items() if name not in _NOT_SENT},
            {name: headers[name] for name in _HEADERS if name in headers},
            may_fetch=self._calls.network,
        )
        if self._left and (left := self._left.get(_key(foreign, asked))):
            return GatewayCall(self, foreign, asked, left.pop(0))
        _count(self.seen.requested_models, asked)
        task = asyncio.create_task(self._answered(foreign, asked))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return GatewayCall(self, foreign, asked, task)

    def leave(self, foreign: Foreign, asked: str, task: asyncio.Task[Answered]) -> None:
        """Keep an answer that was not delivered for a repetition of its request."""
        self.seen.cut_streams += 1
        if not (task.done() and (task.cancelled() or task.result().is_error)):
            self._left[_key(foreign, asked)].append(task)

    async def settle(self) -> None:
        """Wait for the calls in flight, which are recorded."""
        await asyncio.gather(*self._running, return_exceptions=True)

    async def cancel(self) -> None:
        """Cut off the calls in flight."""
        for task in self._running:
            task.cancel()
        await self.settle()

    async def _answered(self, foreign: Foreign, asked: str) -> Answered:
        try:
            for name in foreign.asked.dropped:
                _count(self.seen.dropped_fields, name)
            reply = await self._call(foreign, asked)
        except ProviderTools as error:
            for name in error.names:
                _count(self.seen.server_tools, name)
            return _refused(foreign.dialect, str(error))
        except ContextWindowExceeded as error:
            self._refused_by_provider += 1
            return _refused(foreign.dialect, _too_long(foreign.dialect, error), _TOO_LONG)
        except RequestRefused as error:
            self.seen.invalid_requests += 1
            self._refused_by_provider += 1
            return _refused(foreign.dialect, str(error))
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # ends the attempt, whatever it is
            if not self.failed.done():
                self.failed.set_result(error)
            return _refused(foreign.dialect, f"stop: {type(error).__name__}: {error}")
        assert reply.foreign is not None, "the model answered in the dialect of the request"
        return Answered(reply.foreign)

    async def _call(self, foreign: Foreign, asked: str) -> ModelReply:
        if self.failed.done():
            raise RequestRefused("the attempt has ended")
        if self._refused_by_provider >= _MOST_REFUSED:
            raise RequestRefused(f"{_MOST_REFUSED} requests were refused, so no more are sent")
        return await self._calls.call(foreign, self._role(asked), asked)

    def _role(self, asked: str) -> str:
        fitting = (role for pattern, role in self._roles.items() if fnmatchcase(asked, pattern))
        return next(fitting, AGENT)


_TOO_LONG = "context_length_exceeded"


@dataclass
class GatewayCall:
    """One request of a program while it is answered."""

    switch: Switch
    foreign: Foreign
    asked: str
    """The name of the requested model."""
    task: asyncio.Task[Answered]

    async def within(self, seconds: float) -> Answered | None:
        """Return the answer, or None if there is none yet after some seconds."""
        await asyncio.wait({self.task}, timeout=seconds)
        return self.task.result() if self.task.done() else None

    def undelivered(self) -> None:
        """Note that the program no longer waits."""
        self.switch.leave(self.foreign, self.asked, self.task)


def _key(foreign: Foreign, asked: str) -> str:
    """Return a name by which a repetition of a request is known."""
    whole = [asked, foreign.dialect, foreign.headers, foreign.body]
    return digest(canonical({"asked": whole}))


def _count(counter: Counter[str], name: str) -> None:
    """Count a name of a program's own making."""
    counter[name if name in counter or len(counter) < _MOST_NAMES else "..."] += 1


def _refused(dialect: Dialect, message: str, code: str | None = None) -> Answered:
    return Answered(bodies.error_body(dialect, message, code), is_error=True)


def _too_long(dialect: Dialect, error: ContextWindowExceeded) -> str:
    """Return the provider's words. Clients of Anthropic know a long conversation by its own."""
    known = "prompt is too long"
    is_known = dialect != "messages" or known in str(error)
    return str(error) if is_known else f"{known}: {error}"
