"""Capabilities of agents on the loop, their native tools, the agent and its conversation."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pydantic import Field

from agent.conversation.conversation import Conversation, prompt_beside
from agent.conversation.exchanges import Answer, ConversationLimits, Exchange, Helper, Meter
from agent.conversation.person import Person
from agent.errors import InvalidSpec
from agent.session.session import Session
from agent.tools import Protection, Toolbox
from agent.tools.tool import TEXT, Arguments, Refused, Tool, ToolResult, ToolSettings, Value
from agent.types import Task

if TYPE_CHECKING:
    from agent.capabilities.declared import Delegation
    from agent.ptc.limits import Programs


@dataclass(frozen=True)
class Native:
    """A tool that is the work of more than one step, such as a program or a subagent.

    Native tools of one reply work at the same time.
    """

    name: str
    arguments: type[Arguments]
    run: Callable[["Agent", Session, Any], Awaitable[ToolResult]]
    """Receives the agent that uses it, a scope of its own, and the arguments. Raises `Refused` if
    the model's request is impossible, and `ToolFailed` if the attempt cannot continue."""
    changes_files: bool = False
    """True if it may change the workspace of the agent."""
    value: Value | None = TEXT
    """The value for a program; None if programs cannot use the tool."""


@dataclass(frozen=True)
class Capability:
    """Tools that are switched on together, and what the prompt says about them."""

    name: str
    tools: tuple[Tool[Any], ...] = ()
    """Each use is one step in the workspace."""
    native: tuple[Native, ...] = ()
    prompt: str | Callable[["Agent"], str] = ""
    """A paragraph for the system message."""


@dataclass
class SubagentCount:
    """The number of subagents that began, in this run of the attempt and in earlier ones."""

    number: int | None = None
    """None until one begins that no earlier run has recorded."""


@dataclass(frozen=True)
class Crew:
    """The settings and limits that all agents of an attempt share."""

    task: Task
    meter: Meter
    tools: ToolSettings
    protection: Protection
    programs: "Programs"
    delegation: "Delegation"
    load: Callable[[Sequence[str]], tuple[Capability, ...]]
    """Returns capabilities by their names."""
    slots: dict[int, asyncio.Semaphore] = field(default_factory=dict)
    """Limits on the subagents of each depth at the same time. A parent holds none of these."""
    begun: SubagentCount = field(default_factory=SubagentCount)


@dataclass(frozen=True)
class Agent:
    """One agent on the loop: the first one of an attempt, or a subagent."""

    crew: Crew
    role: str
    capabilities: Sequence[Capability]
    rounds: int
    prompt: str
    """Its instructions, before those of its capabilities."""
    writes: bool = True
    """False if it must not change files."""
    depth: int = 0
    """0 for the first agent, 1 for its subagents."""
    memory: dict[str, Any] = field(default_factory=dict)
    """State of its native tools between uses, by the name of the capability."""

    @property
    def tools(self) -> Mapping[str, Tool[Any]]:
        """The tools whose uses are steps, by name."""
        return {tool.name: tool for each in self.capabilities for tool in each.tools}

    @property
    def natives(self) -> Mapping[str, Native]:
        """The tools that are more than a step, by name."""
        return {native.name: native for each in self.capabilities for native in each.native}

    @property
    def toolbox(self) -> Toolbox:
        """The tools whose uses are steps, with their settings and protection."""
        crew = self.crew
        return Toolbox(self.tools.values(), settings=crew.tools, protection=crew.protection)

    def helpers(self) -> list[Helper]:
        """Return the native tools as helpers of a conversation."""
        return [self._helper(native) for native in self.natives.values()]

    def _helper(self, native: Native) -> Helper:
        async def help_(asked: Any, scope: Session) -> ToolResult:
            try:
                return await native.run(self, scope, asked)
            except Refused as refusal:
                return ToolResult(str(refusal), ok=False)

        return Helper(native.name, native.arguments, help_, native.changes_files, native.value)

    def prompts(self) -> list[str]:
        """Return what the capabilities say in the system message."""
        said = (each.prompt for each in self.capabilities)
        return [text if isinstance(text, str) else text(self) for text in said if text]


def check(capabilities: Sequence[Capability]) -> None:
    """Check that capabilities can be used together.

    Raises:
        InvalidSpec: two of them have a tool of the same name.
    """
    owners: dict[str, str] = {"answer": "every agent"}
    for each in capabilities:
        for name in [*(tool.name for tool in each.tools), *(tool.name for tool in each.native)]:
            if name in owners:
                raise InvalidSpec(
                    f"capability {each.name} has a tool {name}, as {owners[name]} has: leave one "
                    "of them out"
                )
            owners[name] = each.name


A = TypeVar("A", bound=Answer)


class WorkReport(Answer):
    """The end of the work."""

    summary: str = Field(description="what was found or changed, and why that is right")
    status: Literal["done", "blocked"] = Field(
        description="blocked: it cannot be done; the summary says why"
    )


class Spoken(Answer):
    """What the agent says to the person of a chat."""

    text: str


async def work(agent: Agent, task: str, session: Session) -> Exchange[WorkReport]:
    """Let an agent work until it reports. `session` is a scope of its own.

    Raises:
        BudgetExhausted, OutOfTime, LimitReached, InfrastructureError: no call could be made.
        ToolFailed: a tool ended the attempt.
    """
    return await conversation(agent, {"task": task}, WorkReport, session).until_answer()


def conversation(
    agent: Agent,
    facts: Mapping[str, Any],
    answer: type[A],
    session: Session,
    person: Person | None = None,
) -> Conversation[A]:
    """Open the conversation of an agent, with the facts about its task."""
    parts = [agent.prompt, prompt_beside(__file__, "working"), *agent.prompts()]
    return Conversation(
        session,
        agent.role,
        "\n\n".join(part.strip() for part in parts if part.strip()),
        {**facts, **_shared_facts(agent, session)},
        answer,
        ConversationLimits(rounds=agent.rounds, meter=agent.crew.meter),
        agent.toolbox,
        agent.helpers(),
        person=person,
    )


def _shared_facts(agent: Agent, session: Session) -> dict[str, Any]:
    tools = agent.crew.tools
    return {
        "root": session.workspaces.root,
        "network": "commands can reach other machines" if session.workspaces.network else "none",
        "command_timeout_s": tools.command_timeout_s,
        "test_timeout_s": tools.test_timeout_s,
    }
