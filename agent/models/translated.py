"""A model that answers requests of other programs in the dialect that they speak."""

import hashlib
import json
import re
from dataclasses import fields, replace
from typing import Any

from agent.models import dialects
from agent.models.chat import estimated
from agent.models.protocol import (
    Foreign,
    Message,
    Model,
    ModelInfo,
    ModelReply,
    ModelRequest,
    Parameters,
)

PROGRAM = "agent"
"""The role in which a stand-in answers programs, whatever their recipe calls it."""

_STAND_INS = ("simulated", "scripted", "recorded")
_SHELL_TOOLS = re.compile(r"(.*_)?(bash|shell|terminal|(exec|shell|run)_command)$", re.I)
_COMMANDS = ("command", "cmd", "commands")


def answering(model: Model, foreign: Foreign) -> Model:
    """Return a model for a request: the given one if it takes the dialect, else a translator."""
    return model if foreign.dialect in model.info.dialects else Translated(model)


class Translated:
    """Translates requests to chat completions, and the answers back."""

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def info(self) -> ModelInfo:
        return self._model.info

    def ceiling_usd(self, request: ModelRequest) -> float | None:
        """Return the highest possible cost of the answer, as the model itself does."""
        return self._model.ceiling_usd(self._chat(request))

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Answer one request.

        Raises:
            RequestRefused: the request does not follow its dialect.
            ContextWindowExceeded, ModelError: as the model itself.
        """
        foreign = request.foreign
        assert foreign is not None, "only requests of other programs are translated"
        chat = self._chat(request)
        reply = await self._model.complete(chat)
        if self.info.provider in _STAND_INS:
            reply = replace(reply, message=_with_own_tools(reply.message, chat))
        if reply.message.get("tool_calls"):
            reply = replace(reply, finish_reason="tool_calls")
        # A program computes with these numbers, as our own arms do with the same estimate.
        answered = replace(reply, usage=estimated(reply.usage, chat, reply.message))
        return replace(reply, foreign=dialects.answer_of(foreign, answered, _identity(request)))

    def _chat(self, request: ModelRequest) -> ModelRequest:
        foreign = request.foreign
        assert foreign is not None, "only requests of other programs are translated"
        chat = dialects.chat_of(foreign, self.info.name)
        body = chat.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True)
        set_by_program = {each.name: body.get(each.name) for each in fields(Parameters)}
        return replace(
            request,
            messages=body["messages"],
            tools=body.get("tools") or [],
            parameters=Parameters(**set_by_program),
            role=PROGRAM,
        )


def _identity(request: ModelRequest) -> str:
    assert request.foreign is not None
    text = json.dumps([request.foreign.body, request.number], sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:24]


def _with_own_tools(message: Message, chat: ModelRequest) -> Message:
    """Return the message of a stand-in with the names of the program's own shell tool."""
    tool = next((each["function"] for each in chat.tools if _is_shell(each)), None)
    calls = message.get("tool_calls")
    if not calls or tool is None:
        return message
    return {**message, "tool_calls": [_renamed(call, tool) for call in calls]}


def _is_shell(tool: dict[str, Any]) -> bool:
    return bool(_SHELL_TOOLS.match(str(tool.get("function", {}).get("name"))))


def _renamed(call: dict[str, Any], tool: dict[str, Any]) -> dict[str, Any]:
    if call["function"]["name"] != "bash":
        return call
    command = json.loads(call["function"]["arguments"])["command"]
    schema = tool.get("parameters") or {}
    known = schema.get("properties") or {}
    name = next((each for each in _COMMANDS if each in known), "command")
    is_list = known.get(name, {}).get("type") == "array"
    arguments = {name: ["bash", "-lc", command] if is_list else command}
    for required in schema.get("required") or []:
        described = known.get(required, {})
        if required not in arguments and described.get("type") == "string":
            arguments[required] = (described.get("enum") or ["Run a command."])[0]
    function = {"name": tool["name"], "arguments": json.dumps(arguments)}
    return {**call, "function": function}
