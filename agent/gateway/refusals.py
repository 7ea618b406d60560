"""Errors in the words of each dialect, and what a gateway does not pass on."""

from collections.abc import Iterator
from typing import Any

from agent.models.protocol import Dialect

NOT_RETRIED = {"x-should-retry": "false"}
"""A header by which the clients of both vendors do not repeat a request."""

_SERVER_TOOLS = (
    "web_search",
    "web_fetch",
    "code_execution",
    "code_interpreter",
    "file_search",
    "computer_use",
    "image_generation",
    "mcp",
)


def error_body(dialect: Dialect, message: str, code: str | None = None) -> dict[str, Any]:
    """Return an error that says that the request is invalid, which no client repeats."""
    kind = "invalid_request_error"
    if dialect == "messages":
        return {"type": "error", "error": {"type": kind, "message": message}}
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def server_tools(body: dict[str, Any]) -> list[str]:
    """Return the tools in a request that the provider would run itself.

    No missing network stops those.
    """
    found = [kind for kind in _tool_types(body) if kind.startswith(_SERVER_TOOLS)]
    found += ["web_search"] if body.get("web_search_options") else []
    found += ["mcp"] if body.get("mcp_servers") else []
    return sorted(set(found))


def _tool_types(body: dict[str, Any]) -> Iterator[str]:
    tools = body.get("tools")
    for tool in tools if isinstance(tools, list) else []:
        if isinstance(tool, dict) and isinstance(tool.get("type"), str):
            yield tool["type"]
