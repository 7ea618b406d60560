"""The body of a request as a job.

It has the fields of `flows.jobs.request.Request`, with an arm as a name where it needs no options.
"""

import re
import uuid
from typing import Any

from pydantic import ValidationError

from agent.arms import ARMS
from flows.experiments.declaration import in_one_line
from flows.jobs.request import Request
from flows.service.problems import Problem

BY_NAME = tuple(sorted(str(name) for name in ARMS if name not in ("command", "python")))
"""Agents that need no options. A job may name them instead of describing an arm."""

DEFAULT_ARM = "durable"

_TOKENS = re.compile(
    r"gh[a-z]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}|https?://[^/\s:@]+:[^/\s@]+@"
)
"""Tokens of forges, and addresses with a password."""

_TOKEN_FIELDS = ("token", "github_token", "forge_token", "password", "api_key")


def submitted(body: bytes, read: Any) -> Request:
    """Return the job that a body describes, with an id. `read` is the body as JSON.

    Raises:
        Problem: it is no job, or it holds a token.
    """
    if not isinstance(read, dict):
        raise Problem(422, "the body is not a JSON object with the fields source and task")
    refuse_tokens(body.decode(errors="replace"), read)
    return request({**with_named_arms(read), "id": read.get("id") or uuid.uuid4().hex[:10]})


def with_named_arms(read: dict[str, Any]) -> dict[str, Any]:
    """Return the same fields with an arm in place of each name, and the default arm for none.

    Raises:
        Problem: there is no such arm.
    """
    return {**read, "arms": [_arm(each) for each in _arms(read)]}


def request(content: dict[str, Any]) -> Request:
    """Return a job of valid values.

    Raises:
        Problem: a value is invalid. The message has all of them in one line.
    """
    try:
        return Request.model_validate(content)
    except ValidationError as error:
        raise Problem(422, in_one_line(error)) from None


def refuse_tokens(text: str, fields: dict[str, Any]) -> None:
    """Check that a body holds no token: flow runs and the lake would show it.

    Raises:
        Problem: it does.
    """
    if _TOKENS.search(text) or any(name in fields for name in _TOKEN_FIELDS):
        raise Problem(
            422,
            "the body holds a token or a password, which a flow run would show: name a Prefect "
            "Secret block in token_block, or give the workers DURABENCH_FORGE_TOKEN",
        )


def _arms(read: dict[str, Any]) -> list[Any]:
    given = read.get("arms", [DEFAULT_ARM])
    if not isinstance(given, list) or not given:
        raise Problem(422, f"arms: a list of names such as {DEFAULT_ARM!r}, or of arms")
    return given


def _arm(given: Any) -> Any:
    if not isinstance(given, str):
        return given
    if given not in BY_NAME:
        raise Problem(422, f"there is no arm {given!r}: name {', '.join(BY_NAME)}")
    return {"name": given, "agent": given}
