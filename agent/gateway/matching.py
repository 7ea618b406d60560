"""The recorded request that a restarted program repeats.

The request is the same byte by byte, or equivalent. Then the differences are recorded. Each
record answers once. It names the earlier request that its conversation continues, the number of
messages in common, and the new ones. Marks of a provider's cache move from message to message, so
they are not compared.
"""

import copy
import json
import re
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from agent.gateway.equivalence import (
    TALK,
    Equivalent,
    FirstDifference,
    compare_form,
    plain_message,
    read_talk,
)
from agent.journal import RecordedStep
from agent.session.steps import canonical, digest

Body = dict[str, Any]


@dataclass(frozen=True)
class ProgramRequest:
    """One request: its body, with the headers that count."""

    body: Body
    start: Sequence[str] = ()
    """Digests of its first messages, as far as they are known."""

    @cached_property
    def prefixes(self) -> list[str]:
        """The digest of the first message, of the first two, and so on."""
        prefixes = list(self.start)
        for message in read_talk(self.body)[len(prefixes) :]:
            before = prefixes[-1] if prefixes else ""
            part = {"before": before, "message": plain_message(message)}
            prefixes.append(digest(canonical(part)))
        return prefixes


class Conversations:
    """The requests that are recorded so far, by the number of their step."""

    def __init__(self, recorded: Iterable[RecordedStep] = ()) -> None:
        """Rebuild the requests of earlier runs. Records of earlier releases are left out."""
        self._requests: dict[int, ProgramRequest] = {}
        self._asked: dict[int, dict[str, str]] = {}
        self._prefixes: dict[str, tuple[int, int]] = {}
        """Step and number of messages by the digest of the first messages."""
        for step in recorded:
            record = read_record(step)
            if "shared" in record and (record["base"] is None or record["base"] in self._requests):
                self._asked[step.seq] = {name: record[name] for name in ("dialect", "role")}
                self.add(step.seq, self._rebuild(record))

    def __contains__(self, seq: int) -> bool:
        return seq in self._asked

    def read(self, seq: int) -> tuple[dict[str, str], Body]:
        """Return dialect and role, and the body with headers, of a request of an earlier run."""
        return self._asked[seq], self._requests[seq].body

    def add(self, seq: int, request: ProgramRequest) -> None:
        """Add the request of a recorded step, which later ones may continue."""
        self._requests[seq] = request
        for count, prefix in enumerate(request.prefixes, 1):
            self._prefixes[prefix] = (seq, count)

    def list_new(self, request: ProgramRequest) -> dict[str, Any]:
        """Return what is new in a request, for its record."""
        body, base, shared = request.body, None, 0
        for count, prefix in enumerate(request.prefixes, 1):
            if prefix not in self._prefixes:
                break
            base, shared = self._prefixes[prefix][0], count
        before = self._requests[base].body if base is not None else {}
        names = [name for name in body if name not in TALK]
        return {
            "base": base,
            "shared": shared,
            "messages": read_talk(body)[shared:],
            "fields": {name: body[name] for name in names if not _is_equal(before, body, name)},
            "without": [name for name in before if name not in body],
        }

    def _rebuild(self, record: Mapping[str, Any]) -> ProgramRequest:
        base = self._requests.get(record["base"], ProgramRequest({}))
        shared = record["shared"]
        name = next((name for name in TALK if name in base.body), "messages")
        talk = [*read_talk(base.body)[:shared], *record["messages"]]
        same = {name: value for name, value in base.body.items() if name not in record["without"]}
        return ProgramRequest({**same, **record["fields"], name: talk}, base.prefixes[:shared])


def read_record(step: RecordedStep) -> dict[str, Any]:
    """Return what a recorded step says of its request."""
    record: dict[str, Any] = json.loads(step.request.decode("utf-8", "surrogatepass"))
    return record


def _is_equal(before: Body, body: Body, name: str) -> bool:
    return name in before and plain_message({name: before[name]}) == plain_message(
        {name: body[name]}
    )


class Volatile:
    """The parts of requests that a recipe says differ from run to run."""

    def __init__(self, paths: Sequence[str] = (), patterns: Sequence[str] = ()) -> None:
        """`paths` lead to fields, and `patterns` are regular expressions of a request as JSON."""
        self._paths = [path.split(".") for path in paths]
        self._patterns = [re.compile(pattern) for pattern in patterns]

    def digest(self, request: dict[str, Any]) -> str:
        """Return the digest of a request with dialect, role, headers and body."""
        content = canonical({**request, "body": self.drop_fields(request["body"])})
        if self._patterns:
            text = self.drop_text(content.decode("utf-8", "surrogatepass"))
            content = text.encode("utf-8", "surrogatepass")
        return digest(content)

    def drop_fields(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return a body without the fields at the paths. `*` matches any name or number."""
        reduced = copy.deepcopy(body) if self._paths else body
        for path in self._paths:
            for holder, name in _holders(reduced, path):
                holder.pop(name, None)
        return reduced

    def drop_text(self, text: str) -> str:
        """Return a text without what the patterns match."""
        for pattern in self._patterns:
            text = pattern.sub("", text)
        return text


@dataclass(frozen=True)
class Loosened:
    """A repeated request that differs from its record in what is not compared."""

    call: int
    """The number of the recorded step."""
    kinds: list[str]
    """The kinds of differences, such as `duration` and `order of results`."""


class Records:
    """The calls that earlier runs recorded."""

    def __init__(
        self,
        steps: Iterable[RecordedStep],
        conversations: Conversations,
        volatile: Volatile,
    ) -> None:
        self._conversations = conversations
        self._volatile = volatile
        self._steps = {step.seq: step for step in steps}
        self._by_digest: dict[str, deque[int]] = defaultdict(deque)
        for step in self._steps.values():
            self._by_digest[step.digest].append(step.seq)
        self._unused = {seq for seq, step in self._steps.items() if step.result is not None}
        self._forms: dict[int, Equivalent] = {}
        self.found = 0
        """The recorded answers that were repeated."""
        self.loosened: list[Loosened] = []
        self.difference: FirstDifference | None = None
        """The difference of the first request without a record and the nearest unused record."""

    @property
    def unused(self) -> list[int]:
        """The numbers of the recorded answers that no request has repeated."""
        return sorted(self._unused)

    def find(
        self, whole: str, asked: Mapping[str, Any], body: dict[str, Any]
    ) -> RecordedStep | None:
        """Return the record of a request, or None if it has to be made.

        `whole` is the digest of the request, and `asked` its dialect and role.
        """
        if self._by_digest[whole]:
            return self._use(self._by_digest[whole].popleft())
        if not self._unused:
            return None
        form = self._read(asked, body, datetime.now(UTC))
        known = {seq: self._form(seq) for seq in self.unused if seq in self._conversations}
        for seq, recorded in known.items():
            if recorded.digest == form.digest:
                self.loosened.append(Loosened(seq, recorded.list_loosened(form)))
                self._by_digest[self._steps[seq].digest].remove(seq)
                return self._use(seq)
        if self.difference is None and known:
            nearest = max(known.values(), key=lambda each: each.count_equal(form))
            self.difference = nearest.find_difference(form)
        return None

    def _use(self, seq: int) -> RecordedStep:
        self.found += seq in self._unused
        self._unused.discard(seq)
        return self._steps[seq]

    def _form(self, seq: int) -> Equivalent:
        if seq not in self._forms:
            asked, body = self._conversations.read(seq)
            self._forms[seq] = self._read(asked, body, self._steps[seq].started_at)
        return self._forms[seq]

    def _read(self, asked: Mapping[str, Any], body: dict[str, Any], moment: datetime) -> Equivalent:
        form = compare_form(asked, self._volatile.drop_fields(body), moment)
        drop = self._volatile.drop_text
        return replace(form, pieces=tuple((place, drop(text)) for place, text in form.pieces))


def _holders(value: Any, path: Sequence[str]) -> Iterator[tuple[dict[str, Any], str]]:
    name, *rest = path
    if not rest:
        if isinstance(value, dict):
            yield from ((value, field) for field in (list(value) if name == "*" else [name]))
        return
    if isinstance(value, list):
        inner = value if name == "*" else value[int(name) : int(name) + 1] if name.isdigit() else []
    elif isinstance(value, dict):
        inner = list(value.values()) if name == "*" else [value.get(name)]
    else:
        inner = []
    for item in inner:
        yield from _holders(item, rest)
