"""The requests of a program in the journal: each message of a conversation is recorded once.

A record names the earlier request that its conversation continues, the number of messages in
common, and the new ones. Marks of a provider's cache move from message to message, so they are not
compared.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from agent.gateway.equivalence import TALK, plain_message, read_talk
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
