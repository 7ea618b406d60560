"""Ask each model of an experiment once, before its first call.

One small request shows a wrong key, name or address, and a server or a chat template without tools.
Every cell would meet them later, some of them after minutes of retries.

The request belongs to no attempt, so no budget covers it and no bill shows it. Therefore, only a
server of one's own whose price is unknown or 0 gets it. Any other server is asked for its list of
models, which is free, and shows whether the key and the address are right.
"""

import asyncio
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import httpx

from agent.errors import ContextWindowExceeded, RequestRefused, one_line
from agent.models import http
from agent.models.ceilings import Ceilings, is_ollama
from agent.models.dialects import address_of_list
from agent.models.litellm_api import LiteLLMModel
from agent.models.native import ProviderError
from agent.models.protocol import Foreign, Message, ModelRequest
from agent.models.requests import Dialect
from agent.models.retry import CHECK_NAME, classify, find_remedy
from agent.models.spec import LiteLLMSpec
from agent.models.windows import find_window
from flows.display.errors import UsageError
from flows.display.findings import Finding, note, ok, problem
from flows.display.terminal import say_once
from flows.experiments.arms import ArmSpec, CommandArm, PythonArm
from flows.experiments.cells import Cell
from flows.experiments.declaration import Experiment
from flows.experiments.models import (
    ADDRESSES,
    find_problems,
    get_address,
    get_provider,
    join_arms,
    list_models,
)
from reports.format import count, listing

LIMIT_S = 15.0
"""Time for all models, which are asked at the same time."""

_OUTPUT_TOKENS = 16
"""The least that OpenAI's Responses API takes."""

_SYSTEM = "One small request before a run. Answer in one word."
_QUESTION = "Is the server ready?"
_ID = "call00001"
"""Some chat templates want nine letters or digits."""

_FUNCTION: dict[str, Any] = {
    "name": "look",
    "description": "Look at the server.",
    "parameters": {"type": "object", "properties": {}},
}
_TALK: list[Message] = [
    {"role": "system", "content": _SYSTEM},
    {"role": "user", "content": _QUESTION},
]
_CALL = {"id": _ID, "type": "function", "function": {"name": "look", "arguments": "{}"}}
_WITH_TOOLS: list[Message] = [
    {"role": "assistant", "content": "I look.", "tool_calls": [_CALL]},
    {"role": "tool", "tool_call_id": _ID, "content": "It is."},
]
_WITHOUT_TOOLS: list[Message] = [
    {"role": "assistant", "content": "I look."},
    {"role": "user", "content": "It is."},
]

_MOST_NAMES = 5
"""Models of a server that a line names."""


class _Question(NamedTuple):
    spec: str
    """The specification of a model as JSON."""
    has_tools: bool
    dialect: Dialect | None
    """The dialect of the program that asks, or None for an arm."""


_passed = dict[_Question, Finding]()
"""Findings of this process that prevent no run. A problem may be solved before the next run."""


async def refuse_unusable_models(experiment: Experiment, cells: Sequence[Cell]) -> None:
    """Check and ask the models of the arms of cells, which are about to be solved here.

    What is found is printed, once for each command.

    Raises:
        UsageError: a model cannot be used. A line for each reason names its arms and the remedy.
    """
    names = {cell.arm.name for cell in cells}
    arms = [arm for arm in experiment.arms if arm.name in names]
    found = await ask_models(experiment, arms)
    for line in join_arms((each.what, arm) for each, arm in found if each.level != "problem"):
        say_once(line)
    if problems := join_arms((each.what, arm) for each, arm in found if each.level == "problem"):
        raise UsageError(*problems)


def is_due(experiment: Experiment) -> bool:
    """Return False if this process has asked all models of an experiment, or if it has none."""
    models = list_models(experiment, experiment.arms)
    return any(_question(arm, spec) not in _passed for arm, spec in models)


async def ask_models(experiment: Experiment, arms: Sequence[ArmSpec]) -> list[tuple[Finding, str]]:
    """Return the findings about the models of these arms, each with the name of an arm.

    All models are asked at the same time, each once in this process.
    """
    specs = {_question(arm, spec): spec for arm, spec in list_models(experiment, arms)}
    if specs:
        await http.load_in_thread()
    tasks = {
        question: asyncio.create_task(_find(spec, question, experiment.has_usd_budget))
        for question, spec in specs.items()
    }
    found = {question: await task for question, task in tasks.items()}
    return [
        (each, arm.name)
        for arm, spec in list_models(experiment, arms)
        for each in found[_question(arm, spec)]
    ]


def _question(arm: ArmSpec, spec: LiteLLMSpec) -> _Question:
    if isinstance(arm, CommandArm):
        return _Question(spec.model_dump_json(), True, arm.options.recipe.dialect)
    has_tools = spec.native_tools and not isinstance(arm, PythonArm)  # which need not use any
    return _Question(spec.model_dump_json(), has_tools, None)


async def _find(spec: LiteLLMSpec, question: _Question, has_budget: bool) -> list[Finding]:
    lines = await asyncio.to_thread(lambda: list(find_problems(spec, has_budget, True)))
    if lines:
        return [problem(line) for line in lines]
    if question in _passed:
        return [_passed[question]]
    found = await _ask(spec, question)
    if found.level != "problem":
        _passed[question] = found
    return [found]


async def _ask(spec: LiteLLMSpec, question: _Question) -> Finding:
    """Ask a model in the way that it may be asked."""
    try:
        async with asyncio.timeout(LIMIT_S):
            if not _is_free(spec):
                return await _ask_for_list(spec)
            try:
                await _ask_for_answer(spec, question)
            except Exception as error:
                return await _explain(spec, error)
            return await _describe(spec, question)
    except TimeoutError:
        return _late(spec)


def _is_free(spec: LiteLLMSpec) -> bool:
    """Return True for a server of one's own whose answer has no price, or the price 0."""
    provider = get_provider(spec) or ""
    is_own = get_address(spec, provider) not in (None, *ADDRESSES.values())
    return (is_own or is_ollama(spec.name)) and not Ceilings(http.load(), spec).usd(
        ModelRequest(_TALK)
    )


async def _ask_for_answer(spec: LiteLLMSpec, question: _Question) -> None:
    """Send the request as the arm would.

    It repeats a call of a tool, which some templates refuse. A server that refuses it for another
    reason, such as missing thoughts, gets a request without it.
    """
    model = LiteLLMModel(spec.model_copy(update={"max_retries": 0, "timeout_s": LIMIT_S}))
    more = _WITH_TOOLS if question.has_tools else _WITHOUT_TOOLS
    try:
        await model.complete(_request(model, question, [*_TALK, *more]))
    except RequestRefused as error:
        if find_remedy(str(error)) is not None:
            raise
        await model.complete(_request(model, question, _TALK))


def _request(model: LiteLLMModel, question: _Question, talk: list[Message]) -> ModelRequest:
    """Return a request with some messages, as a program sends it if the model takes its dialect."""
    tools: list[dict[str, Any]] = [{"type": "function", "function": _FUNCTION}]
    if question.dialect is None or question.dialect not in model.info.dialects:
        return ModelRequest(
            talk,
            tools if question.has_tools else [],
            max_tokens=_OUTPUT_TOKENS,
            parameters=None if question.dialect is None else {},
        )
    body: dict[str, Any]
    match question.dialect:
        case "chat":
            body = {"messages": talk, "tools": tools, "max_tokens": _OUTPUT_TOKENS}
        case "messages":
            tool = {"name": "look", "input_schema": _FUNCTION["parameters"]}
            body = {"system": _SYSTEM, "messages": _TALK[1:], "tools": [tool]}
            body["max_tokens"] = _OUTPUT_TOKENS
        case "responses":
            tool = {"type": "function", **_FUNCTION}
            body = {"instructions": _SYSTEM, "input": _TALK[1:], "tools": [tool]}
            body["max_output_tokens"] = _OUTPUT_TOKENS
        case "gemini":
            parts = [{"text": _QUESTION}]
            body = {"contents": [{"role": "user", "parts": parts}]}
            body["tools"] = [{"functionDeclarations": [_FUNCTION]}]
    foreign = Foreign(question.dialect, body)
    return ModelRequest([], max_tokens=_OUTPUT_TOKENS, foreign=foreign)


async def _describe(spec: LiteLLMSpec, question: _Question) -> Finding:
    """Return the finding about a model that has answered."""
    ceilings = Ceilings(http.load(), spec)
    window, limit = await find_window(spec, ceilings), spec.max_tokens
    if window is not None and limit is not None and limit >= window:
        return note(
            f"{spec.name}: max_tokens ({count(limit)}) fill its window of {window:,} tokens, so "
            "calls have the output that their input leaves: lower max_tokens, or correct "
            "context_tokens"
        )
    tools = "accepts tools" if question.has_tools else "is offered no tools"
    return ok(f"{spec.name} answers and {tools}; {_state_limits(ceilings, window)}")


def _state_limits(ceilings: Ceilings, window: int | None) -> str:
    """Return window and price with their sources."""
    spec = ceilings.spec
    declared = spec.context_tokens or spec.extra.get("num_ctx")
    known = [(declared, "declared"), (ceilings.context_tokens, "listed by LiteLLM")]
    source = next((source for size, source in known if size), "stated by the server")
    size = "unknown (declare context_tokens)" if window is None else f"{count(window)}, {source}"
    if ceilings.declared is not None:
        price = "declared"
    else:
        price = "listed by LiteLLM" if ceilings.is_priced else "unknown"
    return f"window in tokens: {size}; price: {price}"


def _late(spec: LiteLLMSpec) -> Finding:
    return note(
        f"{spec.name} did not answer within {LIMIT_S:.0f} s, perhaps because its server loads it; "
        "the run continues"
    )


async def _explain(spec: LiteLLMSpec, error: Exception) -> Finding:
    """Return the finding about a failed request. A server that is only busy prevents no run."""
    cause = error.__cause__
    failure = classify(cause) if isinstance(cause, Exception) else None
    kind = None if failure is None else failure.kind
    message = one_line(error).removeprefix("refused: ")
    is_final = isinstance(error, RequestRefused | ContextWindowExceeded) or kind == "refused"
    if kind == "malformed answer":
        words = message.rpartition("Original Response: ")[2].removeprefix("malformed answer: ")
        message = f"{spec.api_base or 'its server'} does not have this API: {words[:80]}"
    elif kind == "timeout":
        return _late(spec)
    elif not is_final:
        return note(f"{spec.name} does not answer now ({message}); the run continues")
    text = f"{spec.name} cannot be used: {message}"
    if CHECK_NAME in message:
        text += await _list_names(spec)
    is_about_address = re.search(r"not have this API|api_base\)|Unexpected endpoint", message)
    has_version = re.search(r"/v\d", spec.api_base or "/v1") or is_ollama(spec.name)
    if is_about_address and not has_version:
        text += "; api_base usually ends in /v1"
    return problem(text)


async def _ask_for_list(spec: LiteLLMSpec) -> Finding:
    """Check the key and the address of a model without a request that has a price."""
    limits = _state_limits(Ceilings(http.load(), spec), Ceilings(http.load(), spec).context_tokens)
    unknown = ok(f"{spec.name} is not asked, since an answer has a price; {limits}")
    response = await _request_list(spec)
    if response is None:
        return unknown
    if not response.is_success:
        failure = classify(ProviderError(response, "chat"))
        # A key may be limited to answers, and a list may be missing.
        is_wrong = response.status_code == 401 and not re.search("scope|permission", response.text)
        if failure is not None and (is_wrong or response.is_redirect):
            return problem(f"{spec.name} cannot be used: {failure.message}")
        return unknown
    names = _names_in(response)
    if names is None:
        if spec.api_base is None:
            return unknown
        return problem(
            f"{spec.name} cannot be used: {spec.api_base} does not have this API; api_base usually "
            "ends in /v1"
        )
    if _is_listed(spec, names):
        return ok(f"{spec.name} is listed by its server; {limits}")
    return note(f"{spec.name} is not in the list of models of its server; the run continues")


async def _list_names(spec: LiteLLMSpec) -> str:
    """Return the models that a server lists, as the end of a line; '' without a list."""
    response = await _request_list(spec)
    names = _names_in(response) if response is not None and response.is_success else None
    if not names:
        return ""
    shown = names[:_MOST_NAMES]
    more = [f"{len(names) - len(shown)} more"] if len(names) > len(shown) else []
    return f"; the server lists {listing([*shown, *more])}"


async def _request_list(spec: LiteLLMSpec) -> httpx.Response | None:
    """Return the response to a request for the list of models, or None if there is none."""
    place: tuple[str, dict[str, str]] | None
    if is_ollama(spec.name):
        place = f"{get_address(spec, get_provider(spec) or '')}/v1/models", {}
    else:
        place = address_of_list(spec)
    if place is None:
        return None
    url, headers = place
    try:
        return await http.client().get(url, headers=headers, timeout=LIMIT_S)
    except httpx.HTTPError:
        return None


def _names_in(response: httpx.Response) -> list[str] | None:
    """Return the names in a list of models, or None if the response is none."""
    try:
        entries = response.json()["data"]
        return [str(entry["id"]) for entry in entries]
    except (ValueError, RecursionError, KeyError, TypeError):
        return None


def _is_listed(spec: LiteLLMSpec, names: Sequence[str]) -> bool:
    """Return True if a list has a model. It may leave out the date of a release."""
    bare = spec.name.rpartition("/")[2]
    return any(bare in name or name in bare for name in names)
