"""The report at the end of an attempt."""

from datetime import UTC, datetime

from agent.arms.durable.outcome import usage_by_role
from agent.models.protocol import ModelReply, Usage
from agent.session.steps import Step


def call(scope: str, cost_usd: float | None) -> Step:
    reply = ModelReply({"role": "assistant"}, Usage(10, cost_usd=cost_usd), "declared", "any")
    moment = datetime.fromtimestamp(0, UTC)
    return Step(scope, 0, "model", {"role": "implementer"}, "digest", reply, moment, 0.0)


def test_usage_does_not_depend_on_which_candidate_was_faster() -> None:
    """The sums are equal to the last bit in any order, so a resumed attempt reports the same."""
    steps = [call(f"step-1/candidate-{n}", cost) for n, cost in enumerate([0.1, 0.2, 0.3])]
    usage = usage_by_role(steps)
    assert usage == usage_by_role(reversed(steps))
    assert (usage["implementer"]["calls"], usage["implementer"]["input_tokens"]) == (3, 30)


def test_an_unknown_cost_makes_the_total_unknown() -> None:
    """If one cost is unknown the total is unknown, but tokens are still counted."""
    usage = usage_by_role([call("a", 0.1), call("b", None)])["implementer"]
    assert (usage["cost_usd"], usage["input_tokens"]) == (None, 20)
