"""The model interface of an arm: messages in, one assistant message and its usage out."""

import functools
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from agent.models.requests import Dialect, ParsedRequest, parse

Message = dict[str, Any]
"""One chat message in the OpenAI form: `role`, `content`, perhaps `tool_calls`."""

Provider = Literal["litellm", "scripted", "recorded", "simulated"]

UNKNOWN_WINDOW = 128_000
"""Context window of a model whose window is unknown, in tokens."""

CostSource = Literal["provider", "declared", "litellm", "recorded", "simulated", "none", "unknown"]
"""Sources of a cost.

In this order: the provider's own figure, a price declared with the model, LiteLLM's price list, the
recording that is replayed, the simulated price list, no money involved (`none`), or `unknown`.
"""


@dataclass(frozen=True)
class Usage:
    """Tokens and money of one model call, or the sum of several.

    None is a number that was not reported, which is not 0. `Usage()` is the usage of no calls.
    """

    input_tokens: int | None = 0
    """All prompt tokens, those read from and written to a cache included; None if unknown."""
    cache_read_tokens: int | None = 0
    """The part of the prompt that the provider read from its cache; None if unknown."""
    cache_write_tokens: int | None = 0
    """The part of the prompt that the provider wrote to its cache; None if unknown."""
    output_tokens: int | None = 0
    """All generated tokens, including `reasoning_tokens`; None if unknown."""
    reasoning_tokens: int | None = 0
    """The part of the output that was hidden reasoning; None if unknown."""
    cost_usd: float | None = 0.0
    """US dollars; None if the price is unknown, which is not the same as free."""

    def __add__(self, other: "Usage") -> "Usage":
        """Return the sum. A number that is unknown in either is unknown in the sum."""
        sums = {}
        for name, first in vars(self).items():
            second = vars(other)[name]
            sums[name] = None if first is None or second is None else first + second
        return Usage(**sums)


@dataclass(frozen=True)
class Foreign:
    """A request that another program made in its dialect.

    Its record is found by `body` and `headers`. Only `asked` is sent.
    """

    dialect: Dialect
    body: dict[str, Any]
    """The request as it came, except the name of the model and whether to stream the answer."""
    headers: dict[str, str] = field(default_factory=dict)
    """Its headers such as `anthropic-beta`, as they came."""
    may_fetch: bool = False
    """True if the provider may fetch what a URL names."""

    @functools.cached_property
    def asked(self) -> ParsedRequest:
        """The validated request.

        Raises:
            RequestRefused: it does not follow its dialect, or uses unavailable features.
        """
        return parse(self.dialect, self.body, self.headers, may_fetch=self.may_fetch)


@dataclass(frozen=True)
class ModelRequest:
    """One call: the whole conversation so far and the offered tools."""

    messages: list[Message]
    tools: list[dict[str, Any]] = field(default_factory=list)
    """OpenAI function definitions; empty for a text protocol."""
    number: int = 0
    """Answered calls of the scope before this one, as counted by the session."""
    role: str = ""
    """The role of the model, such as `planner` or `step_reviewer`.

    `""` if an arm has only one conversation.
    """
    scope: str = ""
    """The calling branch of the attempt, such as `step-2/candidate-1`; `""` for its trunk."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """The role's input. Only the simulated model reads it: it is neither sent nor recorded."""
    only: str = ""
    """The one tool that the reply has to call; `""` for any of them.

    The conversation says so too. This is for providers that can enforce it.
    """
    goes_on: bool = True
    """False if no later call repeats this conversation, so that caching it does not pay."""
    max_tokens: int | None = None
    """Limit on the output where less of a budget is left than the model's own limit could cost."""
    parameters: dict[str, Any] | None = None
    """Settings of another program in a translated request, by their names in chat completions.

    The model's own settings take precedence.
    """
    foreign: Foreign | None = None
    """The original request of another program.

    Messages and tools are translated from it for a model that does not take its dialect.
    """
    before_resend: Callable[[], Awaitable[None]] | None = field(default=None, compare=False)
    """Reserves the cost of a request again, after an attempt that may have been charged.

    Raises BudgetExhausted if it must not be sent again.
    """

    @functools.cached_property
    def text(self) -> str:
        """Messages and tools as JSON, with characters as they are. Written once, as it is long."""
        return json.dumps([self.messages, self.tools], ensure_ascii=False)


@dataclass(frozen=True)
class ModelReply:
    """One answer: `message` is the assistant message to append to the conversation."""

    message: Message
    usage: Usage
    cost_source: CostSource
    model: str
    """The model that answered, by the provider's own name."""
    finish_reason: str | None = None
    latency_s: float = 0.0
    """Wall time of the successful call, seconds."""
    retries: int = 0
    """Failed calls before this one."""
    foreign: dict[str, Any] | None = None
    """The whole answer to a `foreign` request in its dialect; None for any other request."""


@dataclass(frozen=True)
class ModelInfo:
    """Facts about a model that reports and arms need without calling it."""

    name: str
    """LiteLLM model string, or the name of a provider that needs no key."""
    provider: Provider
    native_tools: bool = True
    """False if the model uses a text protocol: actions in fenced blocks."""
    action_regex: str | None = None
    """Regex that extracts an action from the text, if it differs from the arm's own default."""
    context_tokens: Callable[[], int | None] = field(default=lambda: None, compare=False)
    """Returns the context window, or None if unknown. Its first call may read a price list."""
    ask_for_window: Callable[[], Awaitable[int | None]] | None = field(default=None, compare=False)
    """Asks the server of an unknown window; None for a model without a server to ask."""
    max_tokens: Callable[[int | None], int] = field(default=lambda window: 16_384, compare=False)
    """Returns the limit on the output of a call, given the window or None."""
    dialects: frozenset[Dialect] = frozenset()
    """Dialects whose requests the provider takes as they are."""


class Model(Protocol):
    """A model bound to one attempt."""

    @property
    def info(self) -> ModelInfo: ...

    def ceiling_usd(self, request: ModelRequest) -> float | None:
        """Return the highest possible cost of the answer in US dollars, or None if unknown.

        A lower `max_tokens` of the request may make it lower.
        """
        ...

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Answer one request.

        Raises:
            ContextWindowExceeded: the conversation is longer than the model can read.
            ModelError: no usable answer after the retries that the error's class allows.
        """
        ...
