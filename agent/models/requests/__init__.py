"""Validates the model requests of programs: typed requests with an allow-list.

parts.py      shared parts of the dialects: texts, images, files, limits, size
chat.py       OpenAI's chat completions
messages.py   Anthropic's messages
responses.py  OpenAI's responses
gemini.py     Google's generateContent
door.py       `parse`, which all requests pass

Undeclared fields are dropped and counted. A request is refused if the loss of a field would change
the meaning of the answer. Nothing else of a request reaches a provider, or LiteLLM.
"""

from agent.models.requests.chat import ChatRequest
from agent.models.requests.door import ParsedRequest, ProviderTools, check_depth, parse, parse_chat
from agent.models.requests.gemini import GeminiRequest
from agent.models.requests.parts import Dialect, Size
