"""Errors in the words of each dialect."""

from typing import Any

from agent.models.requests import Dialect

NOT_RETRIED = {"x-should-retry": "false"}
"""A header by which the clients of both vendors do not repeat a request."""


def error_body(dialect: Dialect, message: str, code: str | None = None) -> dict[str, Any]:
    """Return an error that says that the request is invalid, which no client repeats."""
    kind = "invalid_request_error"
    if dialect == "messages":
        return {"type": "error", "error": {"type": kind, "message": message}}
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}
