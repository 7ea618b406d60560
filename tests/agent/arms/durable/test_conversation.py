"""One role's conversation: its tools, its window, its ways of asking."""

import json
from typing import Any

import pytest

from agent.arms.durable.answers import Review
from agent.arms.durable.conversation import Exchange, Limits, converse
from agent.arms.durable.protocols import TextTools
from agent.models.protocol import ModelReply, ModelRequest, Usage
from agent.session.session import Session
from agent.tools import Toolbox
from tests.agent.arms.durable.conftest import (
    FILES,
    RoleModel,
    Said,
    review,
)
from tests.agent.repositories import with_files
from tests.agent.workspaces_on_host import HostWorkspaces

LOOK: Said = [("read", {"path": "calc.py"})]
WINDOW = 10_000


class Sized(RoleModel):
    """Says of its conversations that they have so many tokens, one number per reply."""

    sizes: list[int]

    async def complete(self, request: ModelRequest) -> ModelReply:
        reply = await super().complete(request)
        size = self.sizes[min(request.number, len(self.sizes) - 1)]
        return ModelReply(reply.message, Usage(size), "declared", "roles")


async def talk(model: RoleModel, **limits: Any) -> Exchange[Review]:
    """A reviewer who can read."""
    workspaces = HostWorkspaces(with_files(FILES))
    async with Session(attempt_id="a", models={"": model}, workspaces=workspaces) as session:
        bounds = Limits(WINDOW, **limits)
        return await converse(
            session, "step_reviewer", "Judge.", {}, Review, bounds, Toolbox(["read"])
        )


def sized(script: list[Said], sizes: list[int]) -> Sized:
    model = Sized({"step_reviewer": script})
    model.sizes = sizes
    return model


def offered(model: RoleModel) -> list[list[str]]:
    return [[tool["function"]["name"] for tool in request.tools] for request in model.asked]


async def test_beyond_four_fifths_of_the_window_only_an_answer_is_taken() -> None:
    """It is asked for once, with the same tools for the sake of the cache, and it counts."""
    model = sized([LOOK, review()], [8_100])
    exchange = await talk(model)
    assert offered(model) == [["read", "answer"]] * 2
    assert [request.only for request in model.asked] == ["", "answer"]
    assert "answer now" in model.asked[1].messages[-1]["content"]
    assert (exchange.end, exchange.answer is None) == ("answered", False)


async def test_below_four_fifths_all_goes_on() -> None:
    """So that the bound is where it is said to be."""
    model = sized([LOOK, review()], [7_700])
    exchange = await talk(model)
    assert offered(model) == [["read", "answer"]] * 2
    assert exchange.end == "answered"


async def test_who_does_not_answer_then_is_not_asked_again() -> None:
    """A tool that is asked for there is not used any more."""
    model = sized([LOOK], [8_100])
    exchange = await talk(model)
    assert (len(model.asked), len(exchange.uses), exchange.end) == (2, 1, "context_full")


async def test_beyond_nineteen_twentieths_nobody_is_asked() -> None:
    """The conversation ends with what was done."""
    model = sized([LOOK], [9_600])
    exchange = await talk(model)
    assert (len(model.asked), len(exchange.uses), exchange.end) == (1, 1, "context_full")


async def test_a_question_that_is_too_long_is_not_asked_at_all() -> None:
    """The size of what nobody has answered yet is estimated."""
    model = sized([review()], [0])
    workspaces = HostWorkspaces(with_files(FILES))
    async with Session(attempt_id="a", models={"": model}, workspaces=workspaces) as session:
        facts = {"task": "x" * 4 * WINDOW}
        exchange = await converse(session, "step_reviewer", "Judge.", facts, Review, Limits(WINDOW))
    assert (model.asked, exchange.end) == ([], "context_full")


async def test_rounds_are_bounded() -> None:
    """A model that never answers is asked as often as it may be."""
    model = sized([LOOK], [100])
    exchange = await talk(model, rounds=4)
    assert (len(model.asked), exchange.end) == (4, "out_of_rounds")


async def test_tools_are_bounded_over_all_replies() -> None:
    """The third is refused, in the second reply too."""
    model = sized([[*LOOK, *LOOK], LOOK, review()], [100])
    exchange = await talk(model, tool_uses=2)
    assert (len(exchange.uses), exchange.end) == (2, "answered")
    assert "No tool uses are left" in model.asked[2].messages[-1]["content"]


def test_reasons_stand_before_a_verdict() -> None:
    """In the schema that a reviewer is given; and there has to be one."""
    fields = list(Review.model_json_schema()["properties"])
    assert fields == ["reasons", "issues", "verdict"]
    with pytest.raises(ValueError, match="reasons"):
        Review(reasons=[], verdict="accept")


def spoken(text: str) -> ModelReply:
    return ModelReply({"role": "assistant", "content": text}, Usage(), "declared", "roles")


@pytest.mark.parametrize("end", ["\n```", "```", "\n```  \nThat is all."])
def test_a_block_may_hold_fences(end: str) -> None:
    """A file in Markdown can be written by the text protocol."""
    arguments = {"path": "README.md", "content": "Run\n```json\n{}\n```\n```console\n$ x\n```\n"}
    block = json.dumps({"tool": "write", "arguments": arguments})
    [call] = TextTools().read(spoken(f"I write it:\n```json\n{block}{end}"), set()).calls
    assert (call.name, call.arguments) == ("write", arguments)


def test_two_blocks_are_one_too_many() -> None:
    """Nobody knows which one is meant."""
    block = '```json\n{"tool": "read", "arguments": {}}\n```\n'
    assert "2 ```json blocks" in TextTools().read(spoken(block * 2), set()).problem
