"""The body of a request as a job.

It has the fields of `flows.jobs.request.Request`, with an arm as a name where it needs no options.
"""

import uuid
from typing import Any

from pydantic import ValidationError

from agent.arms import ARMS
from flows.experiments.declaration import in_one_line
from flows.experiments.secret_kinds import check_readable
from flows.jobs.request import Request
from flows.jobs.service.problems import Problem

BY_NAME = tuple(sorted(str(name) for name in ARMS if name not in ("command", "python")))
"""Agents that need no options. A job may name them instead of describing an arm."""

DEFAULT_ARM = "durable"


def submitted(read: Any) -> Request:
    """Return the job that a body of JSON describes, with an id.

    Raises:
        Problem: it is no job, or it holds a secret.
    """
    if not isinstance(read, dict):
        raise Problem(422, "the body is not a JSON object with the fields source and task")
    return request({**with_named_arms(read), "id": read.get("id") or uuid.uuid4().hex[:10]})


def with_named_arms(read: dict[str, Any]) -> dict[str, Any]:
    """Return the same fields with an arm in place of each name, and the default arm for none.

    Raises:
        Problem: there is no such arm, or a field holds a secret, which no message may repeat.
    """
    try:
        check_readable(read)
    except ValueError as error:
        raise Problem(422, str(error)) from None
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
