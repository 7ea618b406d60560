"""Requests of other programs, sent to a provider as they are."""

import functools
import ssl
from typing import Any

import httpx

from agent.models import dialects
from agent.models.dialects import Body
from agent.models.protocol import Dialect, Foreign
from agent.models.retry import EmptyAnswer
from agent.models.spec import LiteLLMSpec

_ANSWERS: dict[Dialect, str] = {"chat": "choices", "messages": "content", "responses": "output"}
"""The field that holds the answer."""


class ProviderError(Exception):
    """A response of a provider other than an answer, for the retry policy."""

    def __init__(self, response: httpx.Response) -> None:
        super().__init__(response.text)
        self.status_code = response.status_code
        self.response = response


class ContextWindowExceededError(ProviderError):
    """A provider says that the conversation is too long. The retry policy knows this name."""


def dialects_of(spec: LiteLLMSpec) -> frozenset[Dialect]:
    """Return the dialects whose requests the provider of a model takes as they are.

    A custom server need not have all APIs of the provider that it imitates.
    """
    provider = spec.name.partition("/")[0]
    if provider == "anthropic":
        return frozenset({"messages"})
    if provider != "openai":
        return frozenset()
    return frozenset({spec.api}) if spec.api_base else frozenset({"chat", "responses"})


def body(spec: LiteLLMSpec, foreign: Foreign, max_tokens: int | None) -> Body:
    """Return what is sent: the request with the declared model, its settings and a limit."""
    name = spec.name.partition("/")[2].removeprefix("responses/")
    sent = {**dialects.limited(foreign, max_tokens), "model": name, **_declared(spec, foreign)}
    if foreign.dialect == "chat" and isinstance(sent.get("messages"), list):
        sent["messages"] = [_without_own_fields(message) for message in sent["messages"]]
    extra = spec.extra.items()
    return {**sent, **{name: each for name, each in extra if name not in dialects.OUTPUT_LIMITS}}


def _without_own_fields(message: Any) -> Any:
    """Return a message without the field that LiteLLM adds in programs, and no provider knows."""
    if not isinstance(message, dict):
        return message
    return {name: each for name, each in message.items() if name != "provider_specific_fields"}


def _declared(spec: LiteLLMSpec, foreign: Foreign) -> Body:
    settings: Body = {}
    if spec.temperature is not None:
        settings["temperature"] = spec.temperature
    if effort := spec.reasoning_effort:
        match foreign.dialect:
            case "chat":
                settings["reasoning_effort"] = effort
            case "messages":
                settings["output_config"] = {
                    **(foreign.body.get("output_config") or {}),
                    "effort": effort,
                }
            case "responses":
                settings["reasoning"] = {**(foreign.body.get("reasoning") or {}), "effort": effort}
    return settings


@functools.cache
def _certificates() -> ssl.SSLContext:
    """Return the trusted certificates. Reading them takes longer than a local call."""
    return httpx.create_ssl_context()


async def post(spec: LiteLLMSpec, foreign: Foreign, sent: Body) -> Body:
    """Send a request once. Return the answer.

    Raises:
        ProviderError: the provider answered with an error.
        EmptyAnswer: the provider's answer is none.
        ConnectionLost: there was no answer.
    """
    url, own = dialects.address(foreign.dialect, spec.api_base)
    try:
        async with httpx.AsyncClient(timeout=spec.timeout_s, verify=_certificates()) as client:
            response = await client.post(url, json=sent, headers={**foreign.headers, **own})
    except httpx.TimeoutException as error:
        raise TimeoutError from error
    except httpx.HTTPError as error:
        raise ConnectionLost(error) from error
    if response.is_error:
        too_long = response.status_code < 500 and dialects.is_too_long(response.text)
        raise (ContextWindowExceededError if too_long else ProviderError)(response)
    return _answer(foreign.dialect, response)


class ConnectionLost(Exception):
    """A provider did not answer. The retry policy knows such an error by its status."""

    status_code = 500

    def __init__(self, error: Exception) -> None:
        super().__init__(f"{type(error).__name__}: {error}")


def _answer(dialect: Dialect, response: httpx.Response) -> Body:
    try:
        answer: Any = response.json()
    except ValueError:
        raise EmptyAnswer("the answer is not JSON") from None
    if not isinstance(answer, dict) or not isinstance(answer.get(_ANSWERS[dialect]), list):
        raise EmptyAnswer(f"the answer has no {_ANSWERS[dialect]}")
    return answer
