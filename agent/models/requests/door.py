"""Parses the body and headers of a program's request into a typed request, or refuses it."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from pydantic.alias_generators import to_camel

from agent.errors import RequestRefused
from agent.models.requests.chat import ChatRequest
from agent.models.requests.gemini import GeminiRequest
from agent.models.requests.messages import OWN_TOOLS, MessagesRequest
from agent.models.requests.parts import FETCHES, Dialect, Size, measure
from agent.models.requests.responses import ResponsesRequest

Body = dict[str, Any]
Request = ChatRequest | MessagesRequest | ResponsesRequest | GeminiRequest

_KINDS: dict[Dialect, type[Request]] = {
    "chat": ChatRequest,
    "messages": MessagesRequest,
    "responses": ResponsesRequest,
    "gemini": GeminiRequest,
}
_OWN_TOOLS: dict[Dialect, str] = {
    "chat": r"^(function|custom)$",
    "messages": f"^custom$|{OWN_TOOLS}",
    "responses": r"^(function|custom|namespace|local_shell|apply_patch)$",
    "gemini": r"^$",
}
"""Types of tools that the program runs. The provider runs all others."""

_OTHER_TOOLS = {"web_search_options": "web_search", "mcp_servers": "mcp", "plugins": "plugins"}
"""Fields that declare tools of the provider outside the list of tools."""

_INCLUDED = ("reasoning.encrypted_content",)
"""Parts of a response that a request can include, because it must repeat them later."""

_BETAS = re.compile(
    r"(claude-code|interleaved-thinking|adaptive-thinking|redact-thinking|effort|structured-outputs"
    r"|fine-grained-tool-streaming|token-efficient-tools|tool-examples|context-management"
    r"|context-1m|prompt-caching|prompt-caching-scope|extended-cache-ttl|output-128k)"
    r"-[0-9]{4}-?[0-9]{2}-?[0-9]{2}"
)
"""Features of Anthropic that change how a model reads or writes, and run nothing."""

_DEEPEST = 100
"""Levels of a request, ten times as many as in the deepest schemas of tools."""


class ProviderTools(RequestRefused):
    """A request has no meaning without tools that the provider would run."""

    def __init__(self, names: list[str]) -> None:
        super().__init__(f"{', '.join(names)}: tools of the provider are not available here")
        self.names = names


@dataclass(frozen=True)
class ParsedRequest:
    """A validated request of a program."""

    request: Request
    body: Body
    """Its fields as JSON, all of them declared in a model of the dialect."""
    headers: dict[str, str]
    """Headers that change the answer, which only name known features."""
    dropped: tuple[str, ...]
    """Names of the fields that were left out, without list indices."""
    provider_tools: tuple[str, ...]
    """Kinds of the tools that were left out, because the provider would run them."""
    size: Size

    @property
    def output_limit(self) -> int | None:
        """Most tokens of the answer, or None if the request sets no limit."""
        return self.request.output_limit


def parse(
    dialect: Dialect, body: Body, headers: Mapping[str, str], *, may_fetch: bool = False
) -> ParsedRequest:
    """Return a request with the fields that are declared for its dialect.

    `may_fetch` allows URLs whose content the provider would fetch. Tools that the provider would
    run, even without a network, are left out.

    Raises:
        ProviderTools: it has no other tool, or must call one of them.
        RequestRefused: it does not follow its dialect, or uses unavailable features. The message is
            one line.
    """
    check_depth(body)
    body, provider_tools = _leave_out_tools(dialect, body)
    try:
        request = _validate(_KINDS[dialect], body, may_fetch=may_fetch)
        size = measure(request)
    except UnicodeEncodeError:  # lone surrogates, which no request can carry
        body = json.loads(json.dumps(body, ensure_ascii=False).encode("utf-8", "replace"))
        request = _validate(_KINDS[dialect], body, may_fetch=may_fetch)
        size = measure(request)
    sent = request.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True)
    if "include" in sent:
        sent["include"] = [part for part in sent["include"] if part in _INCLUDED]
        if not sent["include"]:
            del sent["include"]
    names = [name.strip() for name in headers.get("anthropic-beta", "").split(",")]
    betas = ",".join(name for name in names if _BETAS.fullmatch(name))
    return ParsedRequest(
        request,
        sent,
        {"anthropic-beta": betas} if betas else {},
        tuple(sorted(set(_list_dropped(body, sent)))),
        provider_tools,
        size,
    )


def parse_chat(body: Body) -> ChatRequest:
    """Return a translated request as one of chat completions.

    Raises:
        RequestRefused: it has no such form.
    """
    # The validation of the program's dialect has decided about URLs.
    request = _validate(ChatRequest, body, may_fetch=True)
    assert isinstance(request, ChatRequest)
    return request


def _validate(kind: type[Request], body: Body, *, may_fetch: bool) -> Request:
    try:
        return kind.model_validate(body, context={FETCHES: may_fetch})
    except ValidationError as error:
        json.dumps(body, ensure_ascii=False).encode()  # raises for a lone surrogate
        problem = max(error.errors(include_url=False), key=lambda problem: len(problem["loc"]))
        message = problem["msg"].removeprefix("Value error, ")
        if problem["type"] == "union_tag_invalid":
            message = f"{problem['ctx']['tag']!r} is not available here"
        place = ".".join(_place(problem["loc"], body))
        raise RequestRefused(" ".join(f"{place}: {message}".split())[:300]) from None


def _place(location: tuple[Any, ...], body: Any) -> Iterator[str]:
    """Yield the names and numbers of a location that lead into a body."""
    for name in location:
        names = range(len(body)) if isinstance(body, list) else body
        if isinstance(body, dict | list) and name in names:
            body = body[name]
        elif name != location[-1] or not isinstance(body, dict):
            continue  # the name of a type
        yield str(name)


def check_depth(body: Body) -> None:
    """Check that recursion can descend into a body.

    Raises:
        RequestRefused: it is nested too deeply.
    """
    level: list[Any] = [body]
    for _ in range(_DEEPEST):
        holders = [value for value in level if isinstance(value, (dict, list))]
        if not holders:
            return
        level = []
        for holder in holders:
            level += holder.values() if isinstance(holder, dict) else holder
    raise RequestRefused(f"the request is nested deeper than {_DEEPEST} levels")


def _list_dropped(received: Any, sent: Any, place: str = "") -> Iterator[str]:
    """Yield the places of fields that are not sent. A null counts as absent."""
    if isinstance(received, dict) and isinstance(sent, dict):
        for name, value in received.items():
            inner = f"{place}.{name}" if place else name
            sent_name = name if name in sent else to_camel(name)
            if sent_name in sent:
                yield from _list_dropped(value, sent[sent_name], inner)
            elif value is not None:
                yield inner[:100]
    elif isinstance(received, list) and isinstance(sent, list):
        for item, sent_item in zip(received, sent, strict=False):
            yield from _list_dropped(item, sent_item, place)


def _leave_out_tools(dialect: Dialect, body: Body) -> tuple[Body, tuple[str, ...]]:
    """Return a body without the tools that the provider would run, and their kinds."""
    fields = {name for name in _OTHER_TOOLS if body.get(name) not in (None, [])}
    kinds = {_OTHER_TOOLS[name] for name in fields}
    body = {name: value for name, value in body.items() if name not in fields}
    if isinstance(tools := body.get("tools"), list) and tools:
        if dialect == "gemini":
            tools = [one for tool in tools for one in _split_tool(tool)]
        own = [tool for tool in tools if _kind_at_provider(dialect, tool) is None]
        others = [tool for tool in tools if _kind_at_provider(dialect, tool) is not None]
        kinds |= {str(_kind_at_provider(dialect, tool)) for tool in others}
        choices = set(_list_texts(body.get("tool_choice")))
        names = {str(tool.get(name)) for tool in others for name in ("type", "name")}
        if not own or choices & names:
            raise ProviderTools(sorted(kinds))
        body["tools"] = own
    return body, tuple(sorted(kinds))


def _kind_at_provider(dialect: Dialect, tool: Any) -> str | None:
    """Return the kind of a tool that the provider would run, or None for a tool of the program."""
    if not isinstance(tool, dict):
        return None
    if dialect == "gemini" and tool.keys() & _DECLARATIONS:
        return None
    kind = tool.get("type")
    if isinstance(kind, str):
        is_local = kind == "shell" and tool.get("environment") == {"type": "local"}
        return None if is_local or re.search(_OWN_TOOLS[dialect], kind) else kind[:100]
    if kind is None and dialect == "messages" and "input_schema" in tool:
        return None
    return next((str(name)[:100] for name in tool), "a tool without a type")


_DECLARATIONS = {"functionDeclarations", "function_declarations"}


def _split_tool(tool: Any) -> list[Any]:
    """Return the kinds of tools in one tool of Google as tools of one kind each."""
    if not isinstance(tool, dict):
        return [tool]
    own = {name: value for name, value in tool.items() if value or name not in _DECLARATIONS}
    return [{name: value} for name, value in own.items() if value is not None] or [{}]


def _list_texts(value: Any) -> Iterator[str]:
    """Yield the texts in a value, however deep."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _list_texts(item)
