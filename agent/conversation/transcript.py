"""The messages of a conversation, kept within its context window."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from agent.models.chat import CHARS_PER_TOKEN, size_of, tokens
from agent.models.protocol import UNKNOWN_WINDOW, Message, ModelReply, ModelRequest
from agent.shortening import head_and_tail
from agent.tools.rendering import MAX_CHARS

COMPACT_SHARE, WRAP_UP_SHARE, SPILL_SHARE = 0.65, 0.80, 0.95
"""Shares of the context window.

Above the first, older tool results are shortened. Above the second, everything is that can be, and
the oldest replies are left out; if that does not help, only an answer is accepted. Above the third,
no call is made.
"""

RESULT_SHARE, FIRST_SHARE = 0.1, 0.5
"""Largest shares of the window for a tool result, and for the first message when space is short."""

RECENT_RESULTS = 4
"""Tool results that are not shortened before the window is nearly full."""

SHORTENED = 600
"""Maximum length of a shortened tool result, in characters."""

_FORGOTTEN = "[The earliest replies and their results are left out. Their changes of files remain.]"


class Transcript:
    """The messages of one conversation and their size."""

    def __init__(self, messages: list[Message]) -> None:
        self.messages = messages
        self.window = UNKNOWN_WINDOW
        """The context window, in tokens."""
        self._results: list[int] = []
        """Positions of the messages with tool results."""
        self._counted, self._counted_tokens = 0, 0
        """Messages whose size the provider reported, and this size, which includes the tools."""

    @property
    def result_chars(self) -> int:
        """Maximum length of a new tool result, in characters."""
        return min(MAX_CHARS, int(RESULT_SHARE * self.window) * CHARS_PER_TOKEN)

    @property
    def is_nearly_full(self) -> bool:
        """True if only an answer fits."""
        return self._tokens > WRAP_UP_SHARE * self.window

    @property
    def is_full(self) -> bool:
        """True if no call can be made."""
        return self._tokens > SPILL_SHARE * self.window

    @property
    def _tokens(self) -> int:
        """Size of the conversation: the provider's token count, plus an estimate of the rest."""
        return self._counted_tokens + tokens(self.messages[self._counted :])

    def record_sent_tokens(self, request: ModelRequest, reply: ModelReply) -> None:
        """Take over the provider's count of a request. Without one, an estimate remains."""
        if (reported := reply.usage.input_tokens) is not None:
            self._counted_tokens, self._counted = reported, len(request.messages)
        elif not self._counted:
            self._counted_tokens = size_of(request) - tokens(request.messages)

    def take(self, message: Message, reply: ModelReply) -> None:
        """Add what the next request repeats of a reply."""
        reported, is_next = reply.usage.output_tokens, self._counted == len(self.messages)
        self.messages.append(message)
        if is_next and reported is not None and message == reply.message:
            self._counted_tokens += reported
            self._counted = len(self.messages)

    def add_results(self, results: Sequence[Message]) -> None:
        """Add messages with results of tools."""
        self._results += range(len(self.messages), len(self.messages) + len(results))
        self.messages += results

    def say(self, text: str) -> None:
        """Add a message of the user. Some models refuse two of them in a row."""
        last = self.messages[-1]
        if last["role"] == "user":
            self.messages[-1] = {**last, "content": f"{last['content']}\n\n{text}"}
            self._counted = min(self._counted, len(self.messages) - 1)
        else:
            self.messages.append({"role": "user", "content": text})

    def hear(self, text: str) -> None:
        """Add the words of a person, which are shortened last."""
        last = len(self.messages) - 1
        if self._results[-1:] == [last] and self.messages[last]["role"] == "user":
            self._results.pop()  # the words become a part of that message
        self.say(text)

    def make_room(self) -> None:
        """Shorten older tool results before the window is nearly full, then everything else.

        This changes the prefix of the conversation, which the provider's cache then lacks. So
        everything that may be shortened is shortened at once.
        """
        if self._tokens > COMPACT_SHARE * self.window:
            self._shorten(self._results[:-RECENT_RESULTS])
        if self.is_nearly_full:
            self._shorten_all()

    def shorten_after_overflow(self) -> bool:
        """Shorten a conversation that the model refused. Return False if that was not possible.

        The window cannot be larger than that.
        """
        size = self._tokens
        self.window = min(self.window, size)
        self._shorten_all()
        return self._tokens < size

    def _shorten_all(self) -> None:
        """Shorten results, leave out old replies, and shorten what is new or was said first."""
        self._shorten(self._results[:-1])
        while self._tokens > COMPACT_SHARE * self.window and self._leave_out_oldest():
            pass
        if self.is_nearly_full:
            self._shorten(self._results)
        if self.is_nearly_full:
            self._shorten([1], int(FIRST_SHARE * self.window) * CHARS_PER_TOKEN)

    def _leave_out_oldest(self) -> bool:
        """Leave out the oldest reply and its results. Return False if there is only one reply.

        The words of users stay: they become a part of the first message.
        """
        replies = [at for at, each in enumerate(self.messages) if each["role"] == "assistant"]
        if len(replies) < 2:
            return False
        first, end = replies[:2]
        opening = self.messages[first - 1]["content"]
        said = [each["content"] for each in self.messages[first + 1 : end]]
        places = range(first + 1, end)
        texts = [text for at, text in zip(places, said, strict=True) if at not in self._results]
        for text in (_FORGOTTEN, *texts):
            opening += "" if text in opening else f"\n\n{text}"
        before = tokens(self.messages[: self._counted])
        self.messages[first - 1 : end] = [{"role": "user", "content": opening}]
        self._results = [at - (end - first) for at in self._results if at >= end]
        if self._counted:
            self._counted = max(first, self._counted - (end - first))
        self._counted_tokens -= before - tokens(self.messages[: self._counted])
        return True

    def _shorten(self, places: Sequence[int], most: int = SHORTENED) -> None:
        for place in places:
            whole = self.messages[place]["content"]
            if len(whole) <= most:
                continue
            short = head_and_tail(whole, most)
            self.messages[place] = {**self.messages[place], "content": short}
            if place < self._counted:
                self._counted_tokens -= (len(whole) - len(short)) // CHARS_PER_TOKEN


_FENCE = re.compile(r"^`{3,}", re.MULTILINE)


def as_markdown(facts: Mapping[str, Any]) -> str:
    """Return one section for each fact that is not empty, in the given order."""
    sections = []
    for name, value in facts.items():
        if value in (None, "", [], {}):
            continue
        if isinstance(value, Mapping):
            section = _entries(value)
        elif isinstance(value, Sequence) and not isinstance(value, str):
            section = "\n".join(map(_item, value))
        else:
            section = _text(value)
        sections.append(f"## {name}\n{section}")
    return "\n\n".join(sections)


def _entries(values: Mapping[str, Any]) -> str:
    lines = []
    for name, value in values.items():
        if not value:
            continue
        if isinstance(value, Sequence) and not isinstance(value, str):
            lines += [f"- {name}:", *(f"  {_item(item)}" for item in value)]
        else:
            text = _text(value)
            lines.append(f"- {name}: {text}" if "\n" not in text else f"- {name}:\n{text}")
    return "\n".join(lines)


def _item(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"- {_entries(value)[2:]}".replace("\n- ", "\n  - ")
    return f"- {value}"


def _text(value: Any) -> str:
    """Return a value as text. Several lines are fenced, by a fence that they do not contain."""
    text = str(value)
    if "\n" not in text.strip("\n"):
        return text.strip("\n")
    longest = max(map(len, _FENCE.findall(text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}\n{text.rstrip(chr(10))}\n{fence}"
