"""Subagents: agents with separate conversations, for parts of the work."""

import asyncio
import json
from dataclasses import dataclass
from typing import TypedDict

from pydantic import Field

from agent.capabilities.base import Agent, Capability, Native, WorkReport, conversation
from agent.conversation.exchanges import Exchange
from agent.models.patches import parse
from agent.session.session import Session
from agent.tools.tool import NOTHING, Arguments, ToolResult, Value
from agent.workspaces import Workspace


class Spawn(Arguments):
    """Give a task to a subagent, and get its report. It knows nothing but the task's text."""

    agent: str = Field(description="the kind of subagent")
    task: str = Field(min_length=1, description="what to do, and what to report")


class Merge(Arguments):
    """Take over the change of a subagent: all of it, or nothing."""

    ref: str = Field(min_length=1, description="`ref` of the subagent's result")


@dataclass(frozen=True)
class _Admission:
    """The decision about a subagent."""

    refused: str
    """The reason why not, or ''."""


async def spawn(agent: Agent, session: Session, arguments: Spawn) -> ToolResult:
    """Let a subagent work, and return its report as JSON.

    Raises:
        AgentError: the attempt cannot continue, as from any other call.
    """
    crew, name = agent.crew, arguments.agent
    admission = await session.event(
        "spawn", {"agent": name}, lambda: _admit(agent, session, name), _Admission
    )
    if admission.refused:
        return ToolResult(admission.refused, ok=False)
    kind, depth = crew.delegation.kinds[name], agent.depth + 1
    child = Agent(
        crew,
        name,
        crew.load(kind.capabilities),
        kind.rounds,
        kind.prompt,
        writes=kind.writes,
        depth=depth,
    )
    facts = {"task": arguments.task}
    slots = crew.slots.setdefault(depth, asyncio.Semaphore(crew.delegation.at_once))
    if not kind.writes:
        async with slots:
            talk = conversation(child, facts, WorkReport, session.scope("work"))
            return _result(await talk.until_answer())
    tree = await session.current_tree()
    async with slots, session.branch("work", tree) as branch:
        talk = conversation(child, facts, WorkReport, branch.scope("talk"))
        exchange = await talk.until_answer()
        patch = await branch.diff_since(tree)
    if not patch:
        return _result(exchange)
    _refs(agent)[session.name] = patch
    return _result(exchange, session.name, patch)


async def _admit(agent: Agent, session: Session, kind: str) -> _Admission:
    """Return whether a subagent may start, by the limits on depth and number.

    Concurrent subagents are counted here, before their events are recorded.
    """
    crew, limits = agent.crew, agent.crew.delegation
    if crew.subagents is None:
        events = session.attempt.events("spawn")
        crew.subagents = sum(not event["refused"] for event in events)
    if kind not in limits.kinds:
        return _Admission(f"there is no agent {kind!r}; the kinds are {', '.join(limits.kinds)}")
    if agent.depth >= limits.depth:
        return _Admission(f"subagents may be nested {limits.depth} deep, so do this yourself")
    if crew.subagents >= limits.in_all:
        return _Admission(f"all {limits.in_all} subagents have been used, so do this yourself")
    crew.subagents += 1
    return _Admission("")


def _result(exchange: Exchange[WorkReport], ref: str = "", patch: str = "") -> ToolResult:
    answer = exchange.answer
    report = {
        "status": answer.status if answer else exchange.end,
        "summary": answer.summary if answer else f"it ended without a report: {exchange.end}",
        "changed": sorted({path for file in parse(patch) for path in file.paths}),
        "ref": ref,
    }
    return ToolResult(json.dumps(report, ensure_ascii=False))


def _refs(agent: Agent) -> dict[str, str]:
    """Return the changes of the subagents of an agent, as patches by ref."""
    refs: dict[str, str] = agent.memory.setdefault("subagents", {})
    return refs


async def merge(agent: Agent, session: Session, arguments: Merge) -> ToolResult:
    """Apply the change of a subagent to the workspace of its parent, as a step."""
    refs = _refs(agent)
    patch = refs.get(arguments.ref)

    async def apply(workspace: Workspace) -> ToolResult:
        if not agent.writes:
            return _refuse("you must not change files: report what you found instead")
        if patch is None:
            names = ", ".join(refs) or "none"
            return _refuse(f"no subagent of yours has this ref; the refs are: {names}")
        before = await workspace.tree()
        try:
            await workspace.apply(patch)
        except ValueError as error:
            return _refuse(f"nothing was changed, because of a conflict: {error}")
        changes = await workspace.changes(since=before)
        return ToolResult("merged", changed=[change.path for change in changes])

    request = {"tool": "merge", "arguments": {"ref": arguments.ref}}
    depends_on = [patch, agent.writes]
    return await session.act("tool", request, apply, ToolResult, depends_on=depends_on)


def _refuse(reason: str) -> ToolResult:
    return ToolResult(reason, ok=False)


def _prompt(agent: Agent) -> str:
    lines = [
        "`spawn` gives a task to a subagent and returns its status, summary, changed files and, "
        "if it changed files, a `ref` for `merge`. Several in one reply work at the same time. "
        "The kinds:"
    ]
    for name, kind in agent.crew.delegation.kinds.items():
        access = "can change files, on a copy" if kind.writes else "reads only"
        lines.append(f"- {name}: {access}. {kind.prompt}".rstrip())
    return "\n".join(lines)


class SubagentReport(TypedDict):
    """The end of a subagent. `ref` is '' if it changed no file."""

    status: str
    summary: str
    changed: list[str]
    ref: str


_CHILD = Value("SubagentReport", lambda result: json.loads(result.output), (SubagentReport,))

SUBAGENTS = Capability(
    "subagents",
    native=(
        Native("spawn", Spawn, spawn, value=_CHILD),
        Native("merge", Merge, merge, changes_files=True, value=NOTHING),
    ),
    prompt=_prompt,
)
