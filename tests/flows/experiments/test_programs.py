"""Columns of attempts about programs."""

from datetime import UTC, datetime

from agent.arms.command import SCOPE
from agent.arms.command.recipe import CommandOptions
from agent.arms.options import MiniOptions
from agent.session.steps import ActionResult, Step
from flows.experiments.records import NO_PROGRAM, columns
from tests.agent.arms.command.programs import tiny


def test_an_attempt_that_did_not_end_has_its_restarts_and_its_recipe() -> None:
    """A program that is killed again and again states nothing, but its starts are recorded."""
    moment = datetime.now(UTC)
    steps = [
        Step(SCOPE, number, "action", {"action": name}, "", ActionResult(None), moment, 0.0)
        for number, name in enumerate(("begin", "begin", "begin", "excuse"))
    ]
    recipes = [tiny("chat"), tiny("chat", volatile=["user"])]
    rows = [columns(CommandOptions(recipe=recipe), {}, steps) for recipe in recipes]
    assert [(row["restarts"], row["claimed_usd"]) for row in rows] == [(2, None)] * 2
    assert rows[0]["recipe_digest"] != rows[1]["recipe_digest"]
    assert columns(MiniOptions(), {}, ()) == NO_PROGRAM
