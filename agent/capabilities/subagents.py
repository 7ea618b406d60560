"""Subagents: parts of the work for agents with a conversation of their own."""

import asyncio
import json
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from agent.capabilities.base import Agent, Capability, Native, WorkReport, work
from agent.capabilities.declared import SubagentKind
from agent.conversation.exchanges import Exchange
from agent.models.patches import parse
from agent.session.session import Session
from agent.tools.tool import Arguments, Refused, ToolResult, Value
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


async def spawn(agent: Agent, session: Session, asked: Spawn) -> ToolResult:
    """Let a subagent work, and return its report as JSON.

    Raises:
        AgentError: the attempt cannot continue, as from any other call.
    """
    admission = await session.event(
        "spawn", {"agent": asked.agent}, lambda: _admitted(agent, session, asked.agent), _Admission
    )
    if admission.refused:
        return ToolResult(admission.refused, ok=False)
    kind = agent.crew.delegation.kinds[asked.agent]
    child = _child(agent, asked.agent, kind)
    slots = agent.crew.slots.setdefault(
        child.depth, asyncio.Semaphore(agent.crew.delegation.at_once)
    )
    if not kind.writes:
        async with slots:
            return _result(await work(child, asked.task, session.scope("work")))
    tree = await session.current_tree()
    async with slots, AsyncExitStack() as stack:
        branch = await stack.enter_async_context(session.branch("work", tree))
        exchange = await work(child, asked.task, branch.scope("talk"))
        patch = await branch.diff_since(tree)
    if not patch:
        return _result(exchange)
    _refs(agent)[session.name] = patch
    return _result(exchange, session.name, patch)


async def _admitted(agent: Agent, session: Session, kind: str) -> _Admission:
    """Return whether a subagent may begin, by the limits on depth and number.

    Those that begin at the same time are counted here, before their events are on record.
    """
    limits, begun = agent.crew.delegation, agent.crew.begun
    if begun.number is None:
        begun.number = sum(not each["refused"] for each in session.attempt.events("spawn"))
    if kind not in limits.kinds:
        return _Admission(f"there is no agent {kind!r}; the kinds are {', '.join(limits.kinds)}")
    if agent.depth >= limits.depth:
        return _Admission(f"subagents may be nested {limits.depth} deep, so do this yourself")
    if begun.number >= limits.in_all:
        return _Admission(f"all {limits.in_all} subagents have been used, so do this yourself")
    begun.number += 1
    return _Admission("")


def _child(agent: Agent, name: str, kind: SubagentKind) -> Agent:
    return Agent(
        agent.crew,
        name,
        agent.crew.load(kind.capabilities),
        kind.rounds,
        kind.prompt,
        writes=kind.writes,
        depth=agent.depth + 1,
    )


def _result(exchange: Exchange[WorkReport], ref: str = "", patch: str = "") -> ToolResult:
    answer = exchange.answer
    told = {
        "status": answer.status if answer else exchange.end,
        "summary": answer.summary if answer else f"it ended without a report: {exchange.end}",
        "changed": sorted({path for file in parse(patch) for path in file.paths}),
        "ref": ref,
    }
    return ToolResult(json.dumps(told, ensure_ascii=False))


def _refs(agent: Agent) -> dict[str, str]:
    """Return the changes of the subagents of an agent, as patches by ref."""
    refs: dict[str, str] = agent.memory.setdefault("subagents", {})
    return refs


async def merge(agent: Agent, session: Session, asked: Merge) -> ToolResult:
    """Apply the change of a subagent to the workspace of its parent, as a step."""
    patch = _refs(agent).get(asked.ref)

    async def take(workspace: Workspace) -> ToolResult:
        try:
            return await _applied(workspace, agent, patch)
        except Refused as refusal:
            return ToolResult(str(refusal), ok=False)

    request = {"tool": "merge", "arguments": {"ref": asked.ref}}
    depends_on = [patch, agent.writes]
    return await session.act("tool", request, take, ToolResult, depends_on=depends_on)


async def _applied(workspace: Workspace, agent: Agent, patch: str | None) -> ToolResult:
    """Apply a patch.

    Raises:
        Refused: there is none, the agent may not write, or it does not apply.
    """
    if not agent.writes:
        raise Refused("you must not change files: report what you found instead")
    if patch is None:
        refs = ", ".join(_refs(agent)) or "none"
        raise Refused(f"no subagent of yours has this ref; the refs are: {refs}")
    before = await workspace.tree()
    try:
        await workspace.apply(patch)
    except ValueError as error:
        raise Refused(f"nothing was changed, because of a conflict: {error}") from error
    changes = await workspace.changes(since=before)
    return ToolResult("merged", changed=[change.path for change in changes])


def _as_value(result: ToolResult) -> Any:
    return json.loads(result.output)


def _prompt(agent: Agent) -> str:
    kinds = agent.crew.delegation.kinds.items()
    lines = [
        f"- {name}: {'can change files, on a copy' if kind.writes else 'reads only'}. "
        f"{kind.prompt}".rstrip()
        for name, kind in kinds
    ]
    return "\n".join(
        [
            "`spawn` gives a task to a subagent and returns its status, summary, changed files "
            "and, if it changed files, a `ref` for `merge`. Several in one reply work at the same "
            "time. The kinds:",
            *lines,
        ]
    )


_CHILD = Value("dict[str, Any]", _as_value)
_NOTHING = Value("None", lambda result: None)

SUBAGENTS = Capability(
    "subagents",
    native=(
        Native("spawn", Spawn, spawn, value=_CHILD),
        Native("merge", Merge, merge, changes_files=True, value=_NOTHING),
    ),
    prompt=_prompt,
)
