"""Several calls of one reply: their order, and what happens to the others if one ends it all."""

from typing import Any

import pytest

from agent.errors import Interrupted
from tests.agent.arms.durable.conftest import FIX, Said
from tests.agent.arms.loop.conftest import DONE, Attempts

FAULTS = "tests.agent.arms.loop.faults:FAULTS"

TOOLS = ["files", FAULTS, "subagents"]
KINDS = {
    "breaker": {"capabilities": [FAULTS]},
    "reader": {"capabilities": ["look"], "rounds": 30},
}
LOOK: Said = [("read", {"path": "calc.py"})]


def spawn(*kinds: str) -> Said:
    return [("spawn", {"agent": kind, "task": "do it"}) for kind in kinds]


async def test_calls_in_flight_count_for_the_limit_of_calls(attempts: Attempts) -> None:
    """The agent and two of its three subagents make a call each, and that is all."""
    scripts: dict[str, Any] = {"loop": [spawn(*["reader"] * 3), DONE], "reader": [LOOK, DONE]}
    options: dict[str, Any] = {"limits": {"calls": 3}, "subagents": {"kinds": KINDS}}
    outcome = await attempts.run(scripts, TOOLS, **options)
    assert (outcome.status, outcome.detail) == (
        "out_of_steps",
        "the attempt has made its 3 model calls",
    )
    assert len(attempts.model.asked) == 3
    again = await attempts.run({}, TOOLS, **options)
    assert (again, attempts.model.asked) == (outcome, [])


async def test_a_known_end_of_one_call_ends_the_others_in_every_run(attempts: Attempts) -> None:
    """The end is recorded. A replay makes no call, however far the others had come."""
    scripts: dict[str, Any] = {
        "loop": [[*spawn("reader", "breaker", "reader"), FIX], DONE],
        "breaker": [[("slow", {"seconds": 0.3})], [("broken", {})], DONE],
        "reader": [LOOK],
    }
    outcome = await attempts.run(scripts, TOOLS, subagents={"kinds": KINDS})
    assert (outcome.status, outcome.detail) == ("gave_up", "the tool is broken")
    assert attempts.session is not None
    ends = [s.result for s in attempts.session.steps if s.request.get("event") == "called off"]
    assert [end.content for end in ends] == [1]  # type: ignore[union-attr]
    again = await attempts.run({}, TOOLS, subagents={"kinds": KINDS})
    assert (again, attempts.model.asked) == (outcome, [])
    assert all(step.replayed for step in attempts.session.steps)


@pytest.mark.full
async def test_nothing_of_a_reply_begins_after_a_known_end(attempts: Attempts) -> None:
    """Later calls of the reply and the next steps of subagents are called off."""
    scripts: dict[str, Any] = {
        "loop": [[*spawn("reader", "reader"), ("broken", {}), FIX, FIX, *spawn("reader")], DONE],
        "reader": [LOOK],
    }
    outcome = await attempts.run(scripts, TOOLS, subagents={"kinds": KINDS})
    assert (outcome.status, outcome.patch) == ("gave_up", "")
    begun = [step for step in attempts.recorded if step.scope and "reply" not in step.scope]
    [broken] = [step for step in begun if step.kind == "action"]
    assert max(step.ordinal for step in begun) == broken.ordinal


@pytest.mark.parametrize("steps", [6])
async def test_a_stop_during_subagents_makes_no_further_call(
    attempts: Attempts, steps: int
) -> None:
    """Calls in flight finish. The next run makes the rest, and no call twice."""
    scripts: dict[str, Any] = {
        "loop": [spawn("reader", "reader"), DONE],
        "reader": [LOOK, LOOK, LOOK, DONE],
    }
    count = 0

    def may_go_on() -> None:
        nonlocal count
        count += 1
        if count > steps:
            raise Interrupted("asked to stop")

    with pytest.raises(Interrupted):
        await attempts.run(scripts, TOOLS, may_go_on, subagents={"kinds": KINDS})
    first = len(attempts.model.asked)
    outcome = await attempts.run(scripts, TOOLS, subagents={"kinds": KINDS})
    assert (outcome.status, first + len(attempts.model.asked)) == ("submitted", 10)
