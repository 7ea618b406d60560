"""Models that misbehave, behind servers as strict as the real ones, in four dialects.

Whatever a model replies, its provider accepts the next request.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from agent import models
from agent.arms.durable.answers import StepReport
from agent.conversation.conversation import Conversation
from agent.conversation.exchanges import ConversationLimits, Exchange
from agent.session.session import Session
from agent.tools import Toolbox
from tests.agent.arms.durable.conftest import FILES, FIX, TASK
from tests.agent.repositories import with_files
from tests.agent.workspaces_on_host import HostWorkspaces
from tests.servers.openai_server import OpenAIServer
from tests.servers.strict import Anthropic, Asked, Called, Chat, Dialect, Responses, Said

pytestmark = [pytest.mark.slow]

DIALECTS: dict[str, tuple[type[Dialect], dict[str, Any]]] = {
    "chat": (Chat, {"name": "openai/gpt-5"}),
    "responses": (Responses, {"name": "openai/gpt-5", "api": "responses"}),
    "anthropic": (Anthropic, {"name": "anthropic/claude-sonnet-4-5"}),
    "thinking": (
        Anthropic,
        {"name": "anthropic/claude-sonnet-4-5", "reasoning_effort": "low"},
    ),
}
every_dialect = pytest.mark.parametrize("dialect", DIALECTS)

WHOLE = {"summary": "did it", "status": "done", "confidence": "high"}


def call(name: str, id_: str = "", **arguments: Any) -> Called:
    return Called(name, json.dumps(arguments), id_ or f"call_{name}")


READ, EDIT = call("read", path="calc.py"), Called(FIX[0], json.dumps(FIX[1]), "call_edit")
NO_EDIT = call("edit", path="calc.py", old="not there", new="x")
DONE = call("answer", **WHOLE)
CUT_EDIT = Called("edit", '{"path": "calc.py", "old": "return a - b", "new": "retu', "call_cut")

FIXED, FINISHED = Said(calls=(EDIT,)), Said(calls=(DONE,))

REPLIES: dict[str, tuple[list[Said], str]] = {
    "several calls": ([Said(calls=(READ, EDIT)), FINISHED], ""),
    "an edit beside the answer": ([Said(calls=(EDIT, DONE))], ""),
    "an edit after the answer": ([Said(calls=(DONE, EDIT))], ""),
    "a failed edit beside the answer": (
        [Said(calls=(NO_EDIT, DONE)), FIXED, FINISHED],
        "was not taken",
    ),
    "nothing": ([Said(), FIXED, FINISHED], "the reply is empty"),
    "an empty text": ([Said(""), FIXED, FINISHED], "the reply is empty"),
    "white space": ([Said(" \n"), FIXED, FINISHED], "the reply is empty"),
    "nothing, after a result": ([FIXED, Said(), FINISHED], "the reply is empty"),
    "white space beside a call": ([Said("\n\n", (EDIT,)), FINISHED], ""),
    "prose": ([Said("I would fix it."), FIXED, FINISHED], "Call one of read, edit, or `answer`"),
    "an answer as text": ([FIXED, Said(json.dumps(WHOLE))], ""),
    "an answer in a block": (
        [FIXED, Said(f"Done:\n```json\n{json.dumps(WHOLE)}\n```\nThat is all.")],
        "",
    ),
    "a call of answer in a block": (
        [FIXED, Said(f"```\n{json.dumps({'tool': 'answer', 'arguments': WHOLE})}\n```")],
        "",
    ),
    "a text that was cut off": (
        [Said("First of all, " * 2000, is_cut=True), FIXED, FINISHED],
        "write less at once",
    ),
    "a call that was cut off": (
        [Said("I fix it.", (CUT_EDIT,), is_cut=True), FIXED, FINISHED],
        "write less at once",
    ),
    "a call after which another was cut off": (
        [Said(calls=(EDIT, CUT_EDIT), is_cut=True), FINISHED],
        "write less at once",
    ),
    "an unknown field": ([FIXED, Said(calls=(call("answer", mood="good", **WHOLE),))], ""),
    "a missing field": (
        [FIXED, Said(calls=(call("answer", summary="did it"),)), FINISHED],
        "status: Field required",
    ),
    "the same id twice in a reply": (
        [Said(calls=(call("read", "same", path="calc.py"), replace(EDIT, id="same"))), FINISHED],
        "",
    ),
    "no id": ([Said(calls=(replace(EDIT, id=""),)), FINISHED], ""),
    "the same id in two replies": ([Said(calls=(READ,)), Said(calls=(READ, EDIT)), FINISHED], ""),
    "a tool that does not exist": ([Said(calls=(call("fly", to="x"),)), FIXED, FINISHED], "'fly'"),
    "a name that no provider takes": (
        [Said(calls=(call("functions.edit: x" * 9, "call_x"),)), FIXED, FINISHED],
        "there is no tool",
    ),
    "half a character": ([Said("\ud83d broken", (EDIT,)), FINISHED], ""),
}
"""Replies, and words of the error message after the first bad one."""

ONLY_OPENAI: dict[str, tuple[list[Said], str]] = {
    "arguments that are no JSON": (
        [Said(calls=(Called("edit", '{"path": calc.py}', "call_bad"),)), FIXED, FINISHED],
        "not JSON",
    ),
    "arguments that are no object": (
        [Said(calls=(Called("edit", "[1]", "call_bad"),)), FIXED, FINISHED],
        "not a JSON object",
    ),
    "no arguments": ([Said(calls=(Called("read", "", "call_bad"),)), FIXED, FINISHED], "path"),
}
"""Anthropic's API parses the arguments itself, so these cases do not arise there."""


def speaking(dialect: str, says: Callable[[Asked], Said]) -> Dialect:
    kind, _ = DIALECTS[dialect]
    return kind(says, reasons=kind is not Anthropic)


def in_order(replies: list[Said], *, thinks: bool) -> Callable[[Asked], Said]:
    """Return a function that gives the replies in order, with reasoning if `thinks` is True."""
    upcoming = iter(replies)

    def says(asked: Asked) -> Said:
        said = next(upcoming)
        return Said(said.text, said.calls, said.is_cut, thinks)

    return says


async def talk(strict: Dialect, dialect: str, **limits: Any) -> tuple[Exchange[StepReport], str]:
    """Hold an implementer's conversation. Return the exchange and the diff of the work tree."""
    workspaces = HostWorkspaces(with_files(FILES))
    with OpenAIServer(strict) as server:
        own = {**DIALECTS[dialect][1], "api_base": server.url, "temperature": 0.5, "max_retries": 0}
        model = models.build(models.parse(own), TASK, 0)
        async with Session.start(
            attempt_id="a", models={"": model}, workspaces=workspaces
        ) as session:
            exchange = await Conversation(
                session,
                "implementer",
                "Fix it.",
                {"task": "add(2, 3) is -1"},
                StepReport,
                ConversationLimits(**limits),
                Toolbox(["read", "edit"]),
            ).until_answer()
            return exchange, await session.diff()


@pytest.mark.parametrize(
    ("case", "dialect"),
    [
        *((case, "chat") for case in (*REPLIES, *ONLY_OPENAI)),
        *(
            (case, dialect)
            for case in REPLIES
            for dialect in ("responses", "anthropic", "thinking")
        ),
    ],
)
async def test_a_conversation_survives(case: str, dialect: str) -> None:
    """The file is fixed, the answer is accepted, and the provider refuses no request."""
    replies, words = {**REPLIES, **ONLY_OPENAI}[case]
    strict = speaking(dialect, in_order(replies, thinks=dialect in ("responses", "thinking")))
    exchange, diff = await talk(strict, dialect)
    assert strict.refused == []
    assert (exchange.end, exchange.answer) == ("answered", StepReport.model_validate(WHOLE))
    assert "+    return a + b" in diff
    assert len(strict.asked) == len(replies)
    told = " ".join([asked.last for asked in strict.asked] + strict.asked[-1].results)
    assert words in told


@every_dialect
async def test_an_answer_is_forced_where_the_provider_allows_that(dialect: str) -> None:
    """The last round forces the answer, but a thinking model can only be asked for it."""
    strict = speaking(dialect, in_order([FIXED, FINISHED], thinks=dialect == "thinking"))
    exchange, _ = await talk(strict, dialect, rounds=2)
    assert (strict.refused, exchange.end) == ([], "answered")
    assert [asked.tools for asked in strict.asked] == [["read", "edit", "answer"]] * 2
    forced = None if dialect == "thinking" else "answer"
    assert [asked.choice for asked in strict.asked] == [None, forced]
    assert "answer now" in strict.asked[-1].last or dialect == "anthropic"
