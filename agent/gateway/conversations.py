"""The requests of a program in the journal: each message of a conversation is recorded once.

A record names the earlier request that its conversation continues, the number of messages in
common, and the new ones. Marks of a provider's cache move from message to message, so they are not
compared.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from agent.gateway.equivalence import TALK, plain_message
from agent.journal import RecordedStep
from agent.session.steps import canonical, digest

Body = dict[str, Any]


class Conversations:
    """The requests that are recorded so far, by the number of their step."""

    def __init__(self, recorded: Iterable[RecordedStep] = ()) -> None:
        """Rebuild the requests of earlier runs. Records of earlier releases are left out."""
        self._bodies: dict[int, Body] = {}
        self._asked: dict[int, dict[str, str]] = {}
        self._prefixes: dict[str, tuple[int, int]] = {}
        """Step and number of messages by the digest of the first messages."""
        for step in recorded:
            record = json.loads(step.request.decode("utf-8", "surrogatepass"))
            if "shared" in record and (record["base"] is None or record["base"] in self._bodies):
                self._asked[step.seq] = {name: record[name] for name in ("dialect", "role")}
                self.add(step.seq, self._rebuild(record))

    def __contains__(self, seq: int) -> bool:
        return seq in self._asked

    def read(self, seq: int) -> tuple[dict[str, str], Body]:
        """Return dialect and role, and the body with headers, of a request of an earlier run."""
        return self._asked[seq], self._bodies[seq]

    def add(self, seq: int, body: Body) -> None:
        """Add the request of a recorded step, which later ones may continue."""
        self._bodies[seq] = body
        for count, prefix in enumerate(_list_prefixes(_read_talk(body)), 1):
            self._prefixes[prefix] = (seq, count)

    def list_new(self, body: Body) -> dict[str, Any]:
        """Return what is new in a request, for its record."""
        talk = _read_talk(body)
        base, shared = None, 0
        for count, prefix in enumerate(_list_prefixes(talk), 1):
            if prefix not in self._prefixes:
                break
            base, shared = self._prefixes[prefix][0], count
        before = self._bodies[base] if base is not None else {}
        names = [name for name in body if name not in TALK]
        return {
            "base": base,
            "shared": shared,
            "messages": talk[shared:],
            "fields": {name: body[name] for name in names if not _is_equal(before, body, name)},
            "without": [name for name in before if name not in body],
        }

    def _rebuild(self, record: Mapping[str, Any]) -> Body:
        base = self._bodies.get(record["base"], {})
        name = next((name for name in TALK if name in base), "messages")
        talk = [*_read_talk(base)[: record["shared"]], *record["messages"]]
        same = {name: value for name, value in base.items() if name not in record["without"]}
        return {**same, **record["fields"], name: talk}


def _is_equal(before: Body, body: Body, name: str) -> bool:
    return name in before and plain_message({name: before[name]}) == plain_message(
        {name: body[name]}
    )


def _read_talk(body: Mapping[str, Any]) -> list[Any]:
    talk: Any = next((body[name] for name in TALK if name in body), [])
    return talk if isinstance(talk, list) else [{"role": "user", "content": talk}]


def _list_prefixes(talk: list[Any]) -> list[str]:
    """Return the digest of the first message, of the first two, and so on."""
    prefixes, before = [], ""
    for message in talk:
        before = digest(canonical({"before": before, "message": plain_message(message)}))
        prefixes.append(before)
    return prefixes
