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


def read_long(number: int) -> Said:
    """Read a long file, each time with another number of lines."""
    return [("read", {"path": "long.txt", "end": 330 - number})]


READS = [read_long(number) for number in range(16)]


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
    model = RoleModel({"step_reviewer": [*READS[:9], review()]})
    exchange = await long_talk(model, context_tokens=25_000, rounds=12)
    assert exchange.end == "answered"
    [*before, after, last] = [lengths(request) for request in model.asked]
    assert all(min(each) > 8_500 for each in before if each)
    assert [length < 700 for length in after] == [True] * 4 + [False] * 4
    assert [length < 700 for length in last] == [True] * 4 + [False] * 5
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
    model = Silent({"step_reviewer": [*READS, review()]})
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


async def test_a_conversation_that_the_model_refuses_as_too_long_continues() -> None:
    """It is shortened, and its size is the largest window from then on. Its tools stay."""
    model = TooLong({"step_reviewer": lambda n, r: read_long(n) if n < 30 else review()})
    exchange = await long_talk(model, rounds=40)
    assert (exchange.end, len(exchange.uses), exchange.answer is None) == ("answered", 30, False)
    assert {request.only for request in model.asked} == {""}
    assert len(model.asked) == 30 + 1 + 1, "one was refused"
    assert "earliest replies" in model.asked[-1].messages[1]["content"]


async def test_the_window_decides_the_length_of_a_result() -> None:
    """A result has at most a tenth of the window, and never more than 10,000 characters."""
    for window, most in ((4_096, 1_700), (8_192, 3_400), (32_768, 10_200)):
        model = RoleModel({"step_reviewer": [[("read", {"path": "long.txt"})], review()]})
        await long_talk(model, context_tokens=window)
        [length] = lengths(model.asked[1])
        assert min(most, len(LONG)) * 0.9 < length < most


async def test_the_same_call_with_the_same_result_ends_a_conversation() -> None:
    """Each repetition is named, and after the fourth one the conversation is given up."""
    model = RoleModel({"step_reviewer": [[("read", {"path": "none.txt"})]]})
    exchange = await long_talk(model, rounds=20)
    results = [request.messages[-1]["content"] for request in model.asked[1:]]
    assert (exchange.end, len(model.asked)) == ("repeated", 5)
    assert [result.count("same result") for result in results] == [0, 1, 1, 1]
    assert "4 times in a row" in results[-1]


async def test_another_call_in_between_is_no_repetition() -> None:
    """Only replies in a row are compared."""
    model = RoleModel({"step_reviewer": lambda n, r: read_long(n % 2)})
    assert (await long_talk(model, rounds=12)).end == "out_of_rounds"


async def test_the_window_is_the_models_own() -> None:
    """If the profile sets no context window, the model's own one applies."""

    class Small(RoleModel):
        @property
        def info(self) -> ModelInfo:
            return ModelInfo("small", "scripted", context_tokens=lambda: 2_000)

    model = Small({"step_reviewer": [READS[0], review()]})
    exchange = await long_talk(model)
    assert [request.only for request in model.asked] == ["", ""]
    assert (exchange.end, lengths(model.asked[1])[0] < 900) == ("answered", True)


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
