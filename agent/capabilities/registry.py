"""Capabilities by name: the built-in ones, and others by their dotted path."""

import importlib
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

from pydantic import Field

from agent.capabilities.base import Agent, Capability, Native
from agent.capabilities.subagents import SUBAGENTS
from agent.cells.notebook import Notebook
from agent.cells.offering import PROMPT, TOOLS, CellTool
from agent.cells.running import Kernel
from agent.conversation.person import Person, join_texts, make_dismissal
from agent.errors import InvalidSpec
from agent.limits import Delegation
from agent.ptc.tool import NAME, ProgramTool, RunPtc
from agent.session.session import Session
from agent.tools.editing import EDITING
from agent.tools.reading import READING
from agent.tools.testing import COMMANDS, TESTING
from agent.tools.tool import Arguments, ToolResult


async def run_ptc(agent: Agent, session: Session, arguments: RunPtc) -> ToolResult:
    """Run a program of an agent, as `ProgramTool.run` does."""
    return await _programs_of(agent).run(arguments, session)


def _programs_of(agent: Agent) -> ProgramTool:
    if "ptc" not in agent.memory:
        agent.memory["ptc"] = ProgramTool(agent.toolbox, agent.helpers(), agent.crew.programs)
    programs: ProgramTool = agent.memory["ptc"]
    return programs


PTC = Capability(
    "ptc",
    native=(Native(NAME, RunPtc, run_ptc, changes_files=True, value=None),),
    prompt=lambda agent: _programs_of(agent).prompt,
)


TESTS = Capability(
    "tests",
    tools=TESTING,
    prompt=lambda agent: (
        f"`run_tests` runs tests as this repository does: `{agent.crew.tools.runner.command}`."
    ),
)

SYMBOLS = Capability("symbols", tools=tuple(t for t in READING if t.name.startswith("find_")))

SHELL = Capability("shell", tools=COMMANDS)

_LOOKING = ("read", "search")
_CHANGING = ("write", "edit", "apply_patch")

FILES = Capability(
    "files",
    tools=(
        *(tool for tool in READING if tool.name in _LOOKING),
        *(tool for tool in EDITING if tool.name in _CHANGING),
    ),
    prompt="Create and change files with the editing tools.",
)

LOOK = Capability("look", tools=tuple(tool for tool in READING if tool.name in _LOOKING))
"""The files for agents that must not change them."""


async def _use_cells(tool: CellTool, agent: Agent, session: Session, arguments: Any) -> ToolResult:
    if "cells" not in agent.memory:
        kernel = Kernel(agent.crew.tools, agent.crew.protection)
        agent.memory["cells"] = Notebook(kernel, keeps_files=agent.writes)
    return await tool(agent.memory["cells"], session, arguments)


CELLS = Capability(
    "cells",
    native=tuple(
        # None of them overtakes another of the same reply, as tools that only read would.
        Native(tool.name, tool.arguments, partial(_use_cells, tool), changes_files=True)
        for tool in TOOLS
    ),
    prompt=PROMPT,
)


class Ask(Arguments):
    """Ask a person a question, and get the answer."""

    question: str = Field(
        min_length=1, description="one question, with the choices if there are any"
    )


async def ask(agent: Agent, session: Session, arguments: Ask) -> ToolResult:
    """Wait for the answer of a person, and return it.

    Raises:
        Dismissed: the person ended the attempt instead.
        Waiting: there is no answer yet; the next message resumes the attempt.
    """
    messages = await Person(session).answer(0, "answer", arguments.question)
    if messages[-1].kind == "end":
        raise make_dismissal(messages[-1])
    return ToolResult(join_texts(messages))


ASK = Capability(
    "ask",
    native=(Native("ask", Ask, ask, value=None),),
    prompt="`ask` asks the person who gave you the task. It may take hours until they answer, so "
    "ask only what the repository cannot tell you and what would change your work.",
)


BUILT_IN: Mapping[str, Capability] = {
    capability.name: capability
    for capability in (FILES, LOOK, SYMBOLS, SHELL, TESTS, PTC, SUBAGENTS, CELLS, ASK)
}


def load(names: Sequence[str]) -> tuple[Capability, ...]:
    """Return capabilities by their names. `module:NAME` names one of another package.

    Raises:
        InvalidSpec: a name is unknown, or two capabilities have a tool of the same name.
    """
    capabilities = tuple(_find(name) for name in dict.fromkeys(names))
    owners: dict[str, str] = {"answer": "every agent"}
    for capability in capabilities:
        tools = [tool.name for tool in capability.tools]
        for name in (*tools, *(native.name for native in capability.native)):
            if name in owners:
                raise InvalidSpec(
                    f"capability {capability.name} has a tool {name}, as {owners[name]} has: "
                    "leave one of them out"
                )
            owners[name] = capability.name
    return capabilities


def _find(name: str) -> Capability:
    if name in BUILT_IN:
        return BUILT_IN[name]
    module, colon, attribute = name.partition(":")
    if not colon:
        raise InvalidSpec(
            f"there is no capability {name!r}: name one of {', '.join(BUILT_IN)}, or one of "
            "another package as package.module:NAME"
        )
    try:
        capability: object = getattr(importlib.import_module(module), attribute)
    except Exception as error:  # a module of others may raise anything
        raise InvalidSpec(
            f"capability {name} cannot be imported: {type(error).__name__}: {error}"
        ) from None
    if not isinstance(capability, Capability):
        raise InvalidSpec(f"{name} is not a Capability but {type(capability).__name__}")
    return capability


FIRST = "loop"
"""The role of the first agent. Subagents have the names of their kinds."""


def check_capabilities(
    capabilities: Sequence[str], delegation: Delegation, roles: Collection[str]
) -> tuple[Capability, ...]:
    """Return the capabilities of the first agent.

    Raises:
        InvalidSpec: a capability is unknown, or a kind or a role does not fit.
    """
    unknown = sorted(set(roles) - {FIRST, *delegation.kinds})
    if unknown:
        raise InvalidSpec(
            f"no kind of subagent is declared for role {', '.join(unknown)}: the roles are {FIRST} "
            f"and {', '.join(delegation.kinds) or 'no other'}"
        )
    if FIRST in delegation.kinds:
        raise InvalidSpec(
            f"a kind of subagent cannot be named {FIRST}, the role of the first agent: rename it"
        )
    if "subagents" in capabilities and not delegation.kinds:
        raise InvalidSpec("capability subagents needs a kind: declare one in subagents.kinds")
    for name, kind in delegation.kinds.items():
        tools = [tool for capability in load(kind.capabilities) for tool in capability.tools]
        writers = [tool.name for tool in tools if tool.changes_files]
        if writers and not kind.writes:
            raise InvalidSpec(
                f"subagents of kind {name} must not write, but have {', '.join(writers)}: leave "
                "these capabilities out (look reads files), or say writes: true"
            )
    return load(capabilities)
