"""A fixed list of replies, for tests and for trying an arm by hand."""

import json
from typing import Any

from agent.errors import ModelError
from agent.models.chat import bash_call, essential, tokens, tool_call
from agent.models.protocol import Message, ModelInfo, ModelReply, ModelRequest, Usage
from agent.models.spec import ScriptedSpec


class ScriptedModel:
    """Answers call n with the n-th reply. No money is involved; tokens are estimates."""

    def __init__(self, spec: ScriptedSpec) -> None:
        self.info = ModelInfo("scripted", "scripted", spec.native_tools)
        self._replies = spec.replies

    def ceiling_usd(self, request: ModelRequest) -> float:
        """Return 0, because no money is involved."""
        return 0.0

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Return the next reply.

        Raises:
            ModelError: the script has ended.
        """
        if request.number >= len(self._replies):
            raise ModelError(
                f"the script ended after {len(self._replies)} replies", retryable=False
            )
        message = _message(self._replies[request.number], request.number)
        usage = Usage(input_tokens=tokens(request.messages), output_tokens=tokens([message]))
        finish_reason = "tool_calls" if message.get("tool_calls") else "stop"
        return ModelReply(message, usage, "none", self.info.name, finish_reason)


def _message(reply: str | dict[str, Any], number: int) -> Message:
    if isinstance(reply, str):
        return {"role": "assistant", "content": reply}
    if "calls" in reply:
        return _calling(reply, number)
    if "command" in reply:
        return bash_call(reply["command"], call_id=f"call_{number}", content=reply.get("content"))
    return essential(reply)


def _calling(reply: dict[str, Any], number: int) -> Message:
    """Return a message that calls tools."""
    calls = [
        tool_call(
            each["tool"], json.dumps(each.get("arguments") or {}), call_id=f"call_{number}_{at}"
        )["tool_calls"][0]
        for at, each in enumerate(reply["calls"])
    ]
    return {"role": "assistant", "content": reply.get("content"), "tool_calls": calls}
