"""The door of programs: what a program asks of a model, as typed requests with an allow-list.

parts.py      what the dialects share: texts, images, files, limits, size
chat.py       OpenAI's chat completions
messages.py   Anthropic's messages
responses.py  OpenAI's responses
door.py       `parse`, the only way in

A field that no model here names is dropped and counted. One whose loss would change the meaning of
the answer is refused. Nothing else of a request reaches a provider, or LiteLLM.
"""

from agent.models.requests.chat import ChatRequest
from agent.models.requests.door import ParsedRequest, ProviderTools, check_depth, parse, parse_chat
from agent.models.requests.messages import MessagesRequest
from agent.models.requests.parts import Dialect, Size
from agent.models.requests.responses import ResponsesRequest

__all__ = [
    "ChatRequest",
    "Dialect",
    "MessagesRequest",
    "ParsedRequest",
    "ProviderTools",
    "ResponsesRequest",
    "Size",
    "check_depth",
    "parse",
    "parse_chat",
]
