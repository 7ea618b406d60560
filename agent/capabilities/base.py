"""Capabilities of agents on the loop, their native tools, the agent and its conversation."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from pydantic import Field

from agent.conversation.conversation import Conversation, prompt_beside
from agent.conversation.exchanges import Answer, ConversationLimits, Helper, Meter
from agent.conversation.person import Person
from agent.limits import Delegation, Programs
from agent.session.session import Session
from agent.tools import Protection, Toolbox
from agent.tools.tool import (
    TEXT,
    Arguments,
    Refused,
    Tool,
    ToolResult,
    ToolSettings,
    Value,
    run_tool,
)
from agent.types import Task


@dataclass(frozen=True)
class Native:
    """A tool that is the work of more than one step, such as a program or a subagent.

    Native tools of one reply work at the same time.
    """

    name: str
    arguments: type[Arguments]
    run: Callable[["Agent", Session, Any], Awaitable[ToolResult]]
    """Receives the agent that uses it, a separate scope, and the arguments. Raises `Refused` if
    the model's request is impossible, and `ToolFailed` if the attempt cannot continue."""
    changes_files: bool = False
    """True if it may change the workspace of the agent."""
    value: Value | None = TEXT
    """The value for a program; None if programs cannot use the tool."""


@dataclass(frozen=True)
class Capability:
    """Tools that are switched on together, and their paragraph of the prompt."""

    name: str
    tools: tuple[Tool[Any], ...] = ()
    """Each use is one step in the workspace."""
    native: tuple[Native, ...] = ()
    prompt: str | Callable[["Agent"], str] = ""
    """A paragraph for the system message."""


@dataclass
class Crew:
    """The settings and limits that all agents of an attempt share."""

    task: Task
    meter: Meter
    tools: ToolSettings
    protection: Protection
    load: Callable[[Sequence[str]], tuple[Capability, ...]]
    """Returns capabilities by their names."""
    programs: Programs = field(default_factory=Programs)
    delegation: Delegation = field(default_factory=Delegation)
    slots: dict[int, asyncio.Semaphore] = field(default_factory=dict)
    """Limits on concurrent subagents, by depth. A parent holds none of these."""
    subagents: int | None = None
    """Number of subagents so far, in all runs; None until the first one of this run starts."""


@dataclass(frozen=True)
class Agent:
    """One agent on the loop: the first one of an attempt, or a subagent."""

    crew: Crew
    role: str
    capabilities: Sequence[Capability]
    rounds: int
    prompt: str
    """Its instructions, before the prompts of its capabilities."""
    writes: bool = True
    """False if it must not change files."""
    depth: int = 0
    """0 for the first agent, 1 for its subagents."""
    memory: dict[str, Any] = field(default_factory=dict)
    """State of its native tools between uses, by the name of the capability."""

    @property
    def toolbox(self) -> Toolbox:
        """The tools whose uses are steps, with their settings and protection."""
        tools = {tool.name: tool for capability in self.capabilities for tool in capability.tools}
        crew = self.crew
        return Toolbox(tools.values(), settings=crew.tools, protection=crew.protection)

    def helpers(self) -> list[Helper]:
        """Return the native tools as helpers of a conversation."""
        natives = {
            native.name: native for capability in self.capabilities for native in capability.native
        }
        return [self._helper(native) for native in natives.values()]

    def _helper(self, native: Native) -> Helper:
        async def work(arguments: Any, scope: Session) -> ToolResult:
            try:
                return await run_tool(native.name, native.run, self, scope, arguments)
            except Refused as refusal:
                return ToolResult(str(refusal), ok=False)

        return Helper(native.name, native.arguments, work, native.changes_files, native.value)


A = TypeVar("A", bound=Answer)


class WorkReport(Answer):
    """The end of the work."""

    summary: str = Field(description="what was found or changed, and why that is right")
    status: Literal["done", "blocked"] = Field(
        description="blocked: it cannot be done; the summary says why"
    )


class Spoken(Answer):
    """A message of the agent to the person of a chat."""

    text: str


def conversation(
    agent: Agent,
    facts: Mapping[str, Any],
    answer: type[A],
    session: Session,
    person: Person | None = None,
) -> Conversation[A]:
    """Open the conversation of an agent, with the facts about its task."""
    prompts = [agent.prompt, prompt_beside(__file__, "working")]
    for capability in agent.capabilities:
        text = capability.prompt
        prompts.append(text if isinstance(text, str) else text(agent))
    tools, workspaces = agent.crew.tools, session.workspaces
    shared_facts = {
        "root": workspaces.root,
        "network": "commands can reach other machines" if workspaces.network else "none",
        "command_timeout_s": tools.command_timeout_s,
        "test_timeout_s": tools.test_timeout_s,
    }
    return Conversation(
        session,
        agent.role,
        "\n\n".join(prompt.strip() for prompt in prompts if prompt.strip()),
        {**facts, **shared_facts},
        answer,
        ConversationLimits(rounds=agent.rounds, meter=agent.crew.meter),
        agent.toolbox,
        agent.helpers(),
        person=person,
    )
