"""The conversation of one role: tools, context window, and answer formats."""

from dataclasses import replace
from typing import Any

import pytest

from agent.arms.durable.answers import Review
from agent.conversation.conversation import Conversation
from agent.conversation.exchanges import ConversationLimits, Exchange
from agent.errors import ContextWindowExceeded
from agent.models.chat import size_of
from agent.models.protocol import ModelInfo, ModelReply, ModelRequest, Usage
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
    """A model that reports the given conversation sizes in tokens, one per reply."""

    sizes: list[int]

    async def complete(self, request: ModelRequest) -> ModelReply:
        reply = await super().complete(request)
        size = self.sizes[min(request.number, len(self.sizes) - 1)]
        return ModelReply(reply.message, Usage(size), "declared", "roles")


async def talk(model: RoleModel, **limits: Any) -> Exchange[Review]:
    """Hold a conversation with a reviewer who can read files."""
    workspaces = HostWorkspaces(with_files(FILES))
    async with Session.start(attempt_id="a", models={"": model}, workspaces=workspaces) as session:
        bounds = ConversationLimits(WINDOW, **limits)
        return await Conversation(
            session, "step_reviewer", "Judge.", {}, Review, bounds, Toolbox(["read"])
        ).until_answer()


def sized(script: list[Said], sizes: list[int]) -> Sized:
    model = Sized({"step_reviewer": script})
    model.sizes = sizes
    return model


def offered(model: RoleModel) -> list[list[str]]:
    return [[tool["function"]["name"] for tool in request.tools] for request in model.asked]


async def test_beyond_four_fifths_of_the_window_only_an_answer_is_accepted() -> None:
    """Beyond four fifths of the window the answer is requested once, with unchanged tools."""
    model = sized([LOOK, review()], [8_100])
    exchange = await talk(model)
    assert offered(model) == [["read", "answer"]] * 2
    assert [request.only for request in model.asked] == ["", "answer"]
    assert "answer now" in model.asked[1].messages[-1]["content"]
    assert (exchange.end, exchange.answer is None) == ("answered", False)


LONG = "".join(f"line {number} of a long file\n" for number in range(330))
READ_LONG: Said = [("read", {"path": "long.txt"})]


def lengths(request: ModelRequest) -> list[int]:
    """Return the lengths of the tool results in a request."""
    return [len(m["content"]) for m in request.messages if m["role"] == "tool"]


async def long_talk(model: RoleModel, **limits: Any) -> Exchange[Review]:
    """Hold a conversation with a reviewer who can read a long file."""
    workspaces = HostWorkspaces(with_files({**FILES, "long.txt": LONG}))
    async with Session.start(attempt_id="a", models={"": model}, workspaces=workspaces) as session:
        bounds = ConversationLimits(**limits)
        return await Conversation(
            session, "step_reviewer", "Judge.", {}, Review, bounds, Toolbox(["read"])
        ).until_answer()


async def test_older_results_are_shortened_before_the_window_is_full() -> None:
    """At two thirds of the window all but the last four results are shortened at once."""
    model = RoleModel({"step_reviewer": [*[READ_LONG] * 8, review()]})
    exchange = await long_talk(model, context_tokens=20_000, rounds=10)
    assert exchange.end == "answered"
    [*before, after, last] = [lengths(request) for request in model.asked][:8]
    assert all(min(each) > 9_000 for each in before if each)
    assert [length < 700 for length in after] == [True] * 2 + [False] * 4
    assert [length < 700 for length in last] == [True] * 2 + [False] * 5
    assert "left out" in model.asked[-1].messages[3]["content"]
    assert all(request.only == "" for request in model.asked)


class Silent(RoleModel):
    """A model whose provider does not report some of the numbers of tokens."""

    unknown: tuple[str, ...]

    async def complete(self, request: ModelRequest) -> ModelReply:
        reply = await super().complete(request)
        return replace(reply, usage=replace(reply.usage, **dict.fromkeys(self.unknown)))


@pytest.mark.parametrize("unknown", [("input_tokens", "output_tokens"), ("output_tokens",)])
async def test_without_reported_tokens_a_conversation_stays_within_its_window(
    unknown: tuple[str, ...],
) -> None:
    """The size of its messages and tools is estimated, and older results are shortened in time."""
    model = Silent({"step_reviewer": [*[READ_LONG] * 16, review()]})
    model.unknown = unknown
    exchange = await long_talk(model, context_tokens=20_000, rounds=20)
    sizes = [size_of(request) for request in model.asked]
    assert (exchange.end, len(sizes)) == ("answered", 17)
    assert 0.6 * 20_000 < max(sizes) < 0.8 * 20_000


class TooLong(RoleModel):
    """A model that refuses conversations above its window."""

    async def complete(self, request: ModelRequest) -> ModelReply:
        if len(str(request.messages)) > 30_000:
            self.asked.append(request)
            raise ContextWindowExceeded("too long")
        return await super().complete(request)


async def test_a_conversation_that_the_model_refuses_as_too_long_is_shortened() -> None:
    """If the model refuses a conversation as too long, results are shortened for its answer."""
    model = TooLong({"step_reviewer": lambda n, r: review() if r.only else READ_LONG})
    exchange = await long_talk(model, rounds=10)
    assert (exchange.end, exchange.answer is None) == ("answered", False)
    assert max(lengths(model.asked[-1])) < 700
    assert model.asked[-1].only == "answer"


async def test_the_window_is_the_models_own() -> None:
    """If the profile sets no context window, the model's own one applies."""

    class Small(RoleModel):
        @property
        def info(self) -> ModelInfo:
            return ModelInfo("small", "scripted", context_tokens=lambda: 2_000)

    model = Small({"step_reviewer": [READ_LONG, review()]})
    exchange = await long_talk(model)
    assert [request.only for request in model.asked] == ["", ""]
    assert (exchange.end, lengths(model.asked[1])[0] < 700) == ("answered", True)


async def test_the_last_round_asks_for_the_answer() -> None:
    """The last round asks for the answer. Other calls in the same reply are still executed."""
    model = RoleModel({"step_reviewer": lambda n, r: [*review(), *LOOK] if r.only else LOOK})
    exchange = await long_talk(model, rounds=3)
    assert [request.only for request in model.asked] == ["", "", "answer"]
    assert (exchange.end, len(exchange.uses)) == ("answered", 3)


async def test_tools_are_bounded_over_all_replies() -> None:
    """Tool uses are counted over all replies, and those beyond the limit are refused."""
    model = sized([[*LOOK, *LOOK], LOOK, review()], [100])
    exchange = await talk(model, tool_uses=2)
    assert (len(exchange.uses), exchange.end) == (2, "answered")
    assert "No tool uses are left" in model.asked[2].messages[-1]["content"]
