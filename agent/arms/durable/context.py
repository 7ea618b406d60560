"""Context: the gatherer names ranges of lines, which are then read from the files."""

from collections.abc import Sequence

from pydantic import Field

from agent.arms.durable.answers import Gathered, LineReference
from agent.arms.durable.roles import conversation
from agent.arms.durable.state import Excerpt, State
from agent.conversation.conversation import prompt_beside
from agent.conversation.exchanges import Helper
from agent.index.sources import lines
from agent.models.chat import CHARS_PER_TOKEN
from agent.session.session import Session
from agent.tools import ToolResult
from agent.tools.confinement import confined
from agent.tools.tool import Arguments, Refused
from agent.workspaces.protocol import Workspace

PACKED_TOKENS = 12_000
"""Limit on all excerpts together, in tokens.

The last references of the gatherer are dropped first.
"""

_TOLD_TOKENS = 2_000
"""Limit on the excerpts in a tool's answer, in tokens."""

_ROUNDS = 12


class GatherContext(Arguments):
    """Have the lines found that answer questions about the code."""

    questions: list[str] = Field(min_length=1)


async def gather(
    state: State, questions: Sequence[str], session: Session, room_tokens: int = PACKED_TOKENS
) -> list[Excerpt]:
    """Return the lines that answer questions about the code, as they are in the work tree."""
    facts = {
        **state.as_facts("task", "context"),
        "questions": list(questions),
    }
    prompt, limits = prompt_beside(__file__, "gatherer"), state.limits(_ROUNDS)
    talk = conversation("gatherer", state, session, prompt, facts, Gathered, limits)
    answer = (await talk.until_answer()).answer
    return await _lines(answer.references, session, room_tokens) if answer else []


def gathering(state: State) -> Helper:
    """Return the tool with which a role gathers context while it works."""

    async def answer(asked: GatherContext, session: Session) -> ToolResult:
        found = await gather(state, asked.questions, session, _TOLD_TOKENS)
        return ToolResult("\n\n".join(map(_numbered, found)) or "no lines were found")

    return Helper("gather_context", GatherContext, answer)


async def read_again(state: State, session: Session) -> list[Excerpt]:
    """Read the same ranges of the context again, after files have changed."""
    places = [
        LineReference(path=each.path, start=each.start, end=each.end, why=each.why)
        for each in state.context
    ]
    return await _lines(places, session, PACKED_TOKENS) if places else []


async def _lines(
    references: Sequence[LineReference], session: Session, room_tokens: int
) -> list[Excerpt]:
    return await session.act(
        "read lines",
        {"references": [reference.model_dump() for reference in references]},
        lambda workspace: _pack(workspace, references, room_tokens),
        list[Excerpt],
        depends_on=room_tokens,
    )


async def _pack(
    workspace: Workspace, references: Sequence[LineReference], room_tokens: int
) -> list[Excerpt]:
    """Read as many of the lines as fit. References that cannot be read are left out."""
    packed: list[Excerpt] = []
    room = room_tokens * CHARS_PER_TOKEN
    for reference in references:
        excerpt = await _read(workspace, reference, room)
        if excerpt is not None:
            room -= len(excerpt.text)
            packed.append(excerpt)
    return packed


async def _read(workspace: Workspace, reference: LineReference, room: int) -> Excerpt | None:
    """Return the first lines of a range, up to `room` characters, or None if there are none."""
    try:
        path = await confined(workspace, reference.path)
        content = await workspace.read(path)
    except (OSError, ValueError, Refused):
        return None
    chosen: list[str] = []
    for line in lines(content.decode("utf-8", "replace"))[reference.start - 1 : reference.end]:
        room -= len(line) + 1
        if room < 0:
            break
        chosen.append(line)
    if not chosen:
        return None
    end = reference.start + len(chosen) - 1
    return Excerpt(reference.path, reference.start, end, reference.why, "\n".join(chosen))


def _numbered(excerpt: Excerpt) -> str:
    """Format an excerpt with its purpose and with line numbers as shown by tools."""
    shown = enumerate(excerpt.text.split("\n"), excerpt.start)
    head = f"{excerpt.path}, lines {excerpt.start} to {excerpt.end}: {excerpt.why}"
    return "\n".join([head, *(f"{number}\t{line}" for number, line in shown)])
