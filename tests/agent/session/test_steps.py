"""Results as they are recorded."""

from types import SimpleNamespace

import pytest

from agent.models import ModelReply
from agent.models.protocol import Usage
from agent.session.steps import ActionResult, CutOff, Result, decode, encode
from agent.workspaces import CommandResult


@pytest.mark.parametrize(
    ("kind", "result"),
    [
        ("model", ModelReply({"content": "é \udc80"}, Usage(3, cost_usd=None), "litellm", "m")),
        ("command", CommandResult(1, "out", 3, False, False, 0.5)),
        ("action", ActionResult({"b": [1, None], "a": "text"})),
        ("command", CutOff("out of time")),
    ],
)
def test_what_is_recorded_is_the_result(kind: str, result: Result) -> None:
    """Every kind of result comes back equal, with a usage in a reply."""
    assert decode(kind, encode(result)) == result


def test_keys_keep_their_order() -> None:
    """A resumed attempt asked for something new when test files had not run in the sorted order."""
    recorded = decode("action", encode(ActionResult({"b.py": {"y": 1, "x": 2}, "a.py": {}})))
    assert isinstance(recorded, ActionResult)
    assert list(recorded.content) == ["b.py", "a.py"]
    assert list(recorded.content["b.py"]) == ["y", "x"]


def test_an_object_is_refused() -> None:
    """Its attributes would be recorded, and a replay would get a dictionary instead."""
    with pytest.raises(TypeError, match="not JSON serializable"):
        encode(ActionResult([SimpleNamespace(a=1)]))
