"""The form that submits a job, and forms as fields."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs

from agent.arms import ARMS
from flows.jobs.service.problems import Problem
from flows.jobs.service.submitting import BY_NAME, DEFAULT_ARM

ARM_NAMES = tuple(name for name in BY_NAME if ARMS[name].needs_model)  # type: ignore[index]
"""Arms that solve a task, and do not only stand for a known answer."""

_FORM = "application/x-www-form-urlencoded"

EMPTY: dict[str, Any] = {
    "source": "",
    "task": "",
    "ref": "",
    "arms": [DEFAULT_ARM],
    "model": "",
    "publish": "patch",
    "budget_usd": "",
    "verify": "auto",
    "image": "",
    "environment": "docker",
    "approve": "",
    "network": "",
}
"""The fields of the form as text, as a new page has them."""


def fields(content_type: str, body: bytes) -> dict[str, list[str]]:
    """Return the fields of a form.

    Raises:
        Problem: the body is no form.
    """
    if content_type.partition(";")[0] != _FORM:
        raise Problem(415, f"this page takes forms: {_FORM}")
    try:
        return parse_qs(body.decode(), keep_blank_values=True, max_num_fields=100)
    except ValueError as error:
        raise Problem(400, f"the form cannot be read: {error}") from None


def entered(given: Mapping[str, list[str]]) -> dict[str, Any]:
    """Return what a person entered, to be shown again if it is refused."""
    found: dict[str, Any] = {}
    for name in EMPTY:
        values = given.get(name, [])
        found[name] = values if name == "arms" else (values[-1] if values else "")
    return found


def content(entered: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a request. What was left empty has its default.

    Raises:
        Problem: the budget is no number.
    """
    found = {name: value for name, value in entered.items() if value not in ("", [])}
    found |= {name: name in found for name in ("approve", "network")}
    if "budget_usd" in found:
        try:
            found["budget_usd"] = float(found["budget_usd"])
        except ValueError:
            raise Problem(422, "budget_usd: give US dollars, such as 2.50") from None
    return found
