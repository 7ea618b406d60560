"""Context: a gatherer names lines, and the lines are read by machine."""

from collections.abc import Sequence

from agent.durable.answers import Gathered, LineReference
from agent.durable.conversation import converse, prompt_beside
from agent.durable.roles import toolbox
from agent.durable.state import Excerpt, State
from agent.models.chat import tokens
from agent.session import Session
from agent.tools.confinement import confined
from agent.workspaces.protocol import Workspace

PACKED_TOKENS = 12_000
"""Of real lines in all; what stands later in the gatherer's list is left out first."""

_ROUNDS = 12


async def gather(state: State, questions: Sequence[str], session: Session) -> list[Excerpt]:
    """The lines that answer some questions about the code, as they are in the work tree."""
    facts = {
        **state.as_facts("task", "repository_map", "context"),
        "questions": list(questions),
    }
    exchange = await converse(
        session,
        "gatherer",
        prompt_beside(__file__, "gatherer"),
        facts,
        Gathered,
        state.limits(_ROUNDS),
        toolbox("gatherer", state),
    )
    if exchange.answer is None:
        return []
    references = exchange.answer.references
    return await session.act(
        "read lines",
        {"references": [reference.model_dump() for reference in references]},
        lambda workspace: _pack(workspace, references),
        list[Excerpt],
    )


async def _pack(workspace: Workspace, references: Sequence[LineReference]) -> list[Excerpt]:
    """The real lines, as many as fit; what is not there is left out."""
    packed: list[Excerpt] = []
    room = PACKED_TOKENS
    for reference in references:
        excerpt = await _read(workspace, reference)
        if excerpt is None:
            continue
        room -= tokens([{"content": excerpt.text}])
        if room < 0:
            break
        packed.append(excerpt)
    return packed


async def _read(workspace: Workspace, reference: LineReference) -> Excerpt | None:
    try:
        path = await confined(workspace, reference.path)
        content = await workspace.read(path)
    except (OSError, ValueError):
        return None
    lines = content.decode("utf-8", "replace").splitlines()
    chosen = lines[reference.start - 1 : reference.end]
    if not chosen:
        return None
    end = reference.start + len(chosen) - 1
    return Excerpt(reference.path, reference.start, end, reference.why, "\n".join(chosen))
