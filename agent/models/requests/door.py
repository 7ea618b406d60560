"""The only way in: the body and headers of a request become a typed request, or one line."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from agent.errors import RequestRefused
from agent.models.requests.chat import ChatRequest
from agent.models.requests.messages import OWN_TOOLS, MessagesRequest
from agent.models.requests.parts import FETCHES, Dialect, Size, measure
from agent.models.requests.responses import ResponsesRequest

Body = dict[str, Any]
Request = ChatRequest | MessagesRequest | ResponsesRequest

_KINDS: dict[Dialect, type[Request]] = {
    "chat": ChatRequest,
    "messages": MessagesRequest,
    "responses": ResponsesRequest,
}
_OWN_TOOLS: dict[Dialect, str] = {
    "chat": r"^(function|custom)$",
    "messages": f"^custom$|{OWN_TOOLS}",
    "responses": r"^(function|custom|namespace|local_shell|apply_patch)$",
}
"""Types of tools that the program runs. All others are the provider's."""

_OTHER_TOOLS = {"web_search_options": "web_search", "mcp_servers": "mcp", "plugins": "plugins"}
"""Fields that declare tools of the provider outside the list of tools."""

_INCLUDED = ("reasoning.encrypted_content",)
"""Parts of a response that a request may ask for: what it has to repeat later."""

_BETAS = re.compile(
    r"(claude-code|interleaved-thinking|adaptive-thinking|redact-thinking|effort|structured-outputs"
    r"|fine-grained-tool-streaming|token-efficient-tools|tool-examples|context-management"
    r"|context-1m|prompt-caching|prompt-caching-scope|extended-cache-ttl|output-128k)"
    r"-[0-9]{4}-?[0-9]{2}-?[0-9]{2}"
)
"""Features of Anthropic that change how a model reads or writes, and run nothing."""

_DEEPEST = 100
"""Levels of a request. Those of the deepest schemas of tools are a tenth of that."""


class ProviderTools(RequestRefused):
    """A request wants tools that the provider would run. No missing network stops those."""

    def __init__(self, names: list[str]) -> None:
        super().__init__(f"{', '.join(names)}: tools of the provider are not available here")
        self.names = names


@dataclass(frozen=True)
class ParsedRequest:
    """A request of a program, inside the door."""

    request: Request
    body: Body
    """Its fields as JSON, all of them named in a model of the dialect."""
    headers: dict[str, str]
    """Headers that change the answer. None of them is more than a name of a known feature."""
    dropped: tuple[str, ...]
    """Names of the fields that were left out, without the numbers of their places."""
    size: Size

    @property
    def output_limit(self) -> int | None:
        """Most tokens of the answer, or None if the request sets no limit."""
        return self.request.output_limit


def parse(
    dialect: Dialect, body: Body, headers: Mapping[str, str], *, may_fetch: bool = False
) -> ParsedRequest:
    """Return a request of which only the fields are left that its model names.

    `may_fetch` allows URLs whose content the provider would fetch.

    Raises:
        ProviderTools: it wants tools that the provider would run.
        RequestRefused: it does not follow its dialect, or wants what is not available here. The
            message is one line.
    """
    if tools := _provider_tools(dialect, body):
        raise ProviderTools(tools)
    check_depth(body)
    try:
        return _parse_dialect(dialect, body, headers, may_fetch=may_fetch)
    except UnicodeEncodeError:
        return _parse_dialect(dialect, _encodable(body), headers, may_fetch=may_fetch)


def _parse_dialect(
    dialect: Dialect, body: Body, headers: Mapping[str, str], *, may_fetch: bool
) -> ParsedRequest:
    request = _validate(_KINDS[dialect], body, may_fetch=may_fetch)
    sent = request.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True)
    sent = _correct(dialect, sent)
    return ParsedRequest(
        request,
        sent,
        _select_headers(headers),
        tuple(sorted(set(_list_dropped(body, sent)))),
        measure(request),
    )


def parse_chat(body: Body) -> ChatRequest:
    """Return a translated request as one of chat completions.

    Raises:
        RequestRefused: it has no such form.
    """
    # The door of the program's dialect has decided about URLs.
    request = _validate(ChatRequest, body, may_fetch=True)
    assert isinstance(request, ChatRequest)
    return request


def _validate(kind: type[Request], body: Body, *, may_fetch: bool) -> Request:
    try:
        return kind.model_validate(body, context={FETCHES: may_fetch})
    except ValidationError as error:
        json.dumps(body, ensure_ascii=False).encode()  # raises for a lone surrogate
        raise RequestRefused(_one_line(error, body)) from None


def _one_line(error: ValidationError, body: Body) -> str:
    """Return the problem that is deepest in a request, with its place."""
    problem = max(error.errors(include_url=False), key=lambda each: len(each["loc"]))
    message = problem["msg"].removeprefix("Value error, ")
    if problem["type"] == "union_tag_invalid":
        message = f"{problem['ctx']['tag']!r} is not available here"
    place = ".".join(_place(problem["loc"], body))
    return " ".join(f"{place}: {message}".split())[:300]


def _place(location: tuple[Any, ...], body: Any) -> Iterator[str]:
    """Yield the names and numbers of a location that lead into a body."""
    for name in location:
        if isinstance(body, dict | list) and name in _names(body):
            body = body[name]
        elif name != location[-1] or not isinstance(body, dict):
            continue  # the name of a type
        yield str(name)


def _names(body: Body | list[Any]) -> Body | range:
    return body if isinstance(body, dict) else range(len(body))


def _encodable(body: Body) -> Body:
    """Return a body without lone surrogates, which no request can carry."""
    text = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
    return dict(json.loads(text))


def check_depth(body: Body) -> None:
    """Check that what follows may descend into a body by recursion.

    Raises:
        RequestRefused: it may not.
    """
    level: list[Any] = [body]
    for _ in range(_DEEPEST):
        inner = [each for each in level if isinstance(each, (dict, list))]
        if not inner:
            return
        level = [
            value for each in inner for value in (each.values() if isinstance(each, dict) else each)
        ]
    raise RequestRefused(f"the request is nested deeper than {_DEEPEST} levels")


def _correct(dialect: Dialect, sent: Body) -> Body:
    """Return a body without what a provider would not understand."""
    if dialect != "responses" or "include" not in sent:
        return sent
    included = [each for each in sent["include"] if each in _INCLUDED]
    rest = {name: value for name, value in sent.items() if name != "include"}
    return {**rest, "include": included} if included else rest


def _select_headers(headers: Mapping[str, str]) -> dict[str, str]:
    given = headers.get("anthropic-beta", "").split(",")
    betas = [each.strip() for each in given if _BETAS.fullmatch(each.strip())]
    return {"anthropic-beta": ",".join(betas)} if betas else {}


def _list_dropped(asked: Any, sent: Any, place: str = "") -> Iterator[str]:
    """Yield the places of fields that are not sent. A null counts as absent."""
    if isinstance(asked, dict) and isinstance(sent, dict):
        for name, value in asked.items():
            inner = f"{place}.{name}" if place else name
            if name in sent:
                yield from _list_dropped(value, sent[name], inner)
            elif value is not None:
                yield inner[:100]
    elif isinstance(asked, list) and isinstance(sent, list):
        for each, its in zip(asked, sent, strict=False):
            yield from _list_dropped(each, its, place)


def _provider_tools(dialect: Dialect, body: Body) -> list[str]:
    """Return the tools in a request that the provider would run itself."""
    tools = body.get("tools")
    found = [
        kind
        for tool in (tools if isinstance(tools, list) else [])
        if (kind := _kind_of_tool(dialect, tool)) is not None
    ]
    found += [kind for name, kind in _OTHER_TOOLS.items() if body.get(name) not in (None, [])]
    return sorted(set(found))


def _kind_of_tool(dialect: Dialect, tool: Any) -> str | None:
    """Return the name of a tool of the provider, or None for one of the program."""
    if not isinstance(tool, dict):
        return None
    kind = tool.get("type")
    if kind is None and dialect == "messages" and "input_schema" in tool:
        return None
    if isinstance(kind, str):
        is_local = kind == "shell" and tool.get("environment") == {"type": "local"}
        is_own = re.search(_OWN_TOOLS[dialect], kind) or is_local
        return None if is_own else kind[:100]
    return next((str(name)[:100] for name in tool), "a tool without a type")
