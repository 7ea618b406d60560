"""One step of the plan: as many candidates as confidence requires. The best one stays.

The gatherer names ranges of lines for its context, which are then read from the files.
"""

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from pydantic import Field

from agent.arms.durable.answers import Gathered, LineReference, NextStep, StepReport
from agent.arms.durable.review import review_step
from agent.arms.durable.roles import ask, conversation, network
from agent.arms.durable.state import (
    SHOWN_DIFF,
    Candidate,
    CandidateStatus,
    Excerpt,
    State,
    StepResult,
)
from agent.arms.durable.verification import verify
from agent.checks import debugging, find_covering
from agent.conversation.conversation import prompt_beside
from agent.conversation.exchanges import (
    Exchange,
    Helper,
    ToolUse,
    get_changed_files,
    get_written_files,
)
from agent.errors import OutOfTime
from agent.index.sources import lines
from agent.models.chat import CHARS_PER_TOKEN
from agent.ptc.tool import program_uses
from agent.session.session import Session
from agent.shortening import head_and_tail
from agent.tools import ToolResult
from agent.tools.protection import confine
from agent.tools.tool import Arguments, Refused
from agent.types import End
from agent.workspaces import Workspace


async def implement(state: State, step: NextStep, number: int, session: Session) -> Candidate:
    """Let an implementer make the step in the session's workspace.

    Return its candidate, also when its time ran out.
    """
    uses: list[ToolUse] = []
    diff = ""
    try:
        facts = {
            **state.as_facts(
                "task",
                "contract",
                "anchor",
                "regression_tests",
                "context",
                "facts",
                "completed_steps",
                "last_step",
                "earlier_errors",
            ),
            "network": network(session),
            "step": step.model_dump(),
            "candidate": number,
            "diff": head_and_tail(await session.diff(), SHOWN_DIFF),
        }
        is_for = state.task.for_reviewers
        prompt = prompt_beside(__file__, "implementation", for_reviewers=is_for)
        if debugging.is_stuck(state.errors):
            prompt += f"\n{debugging.ROOT_CAUSE}"
        talk = conversation(
            "implementer",
            state,
            session,
            prompt,
            facts,
            StepReport,
            state.limits(state.profile.step_rounds),
            [_gather_helper(state)],
            uses.append,
        )
        exchange = await talk.until_answer()
        diff = await session.diff()
    except OutOfTime:
        exchange = Exchange(None, "out_of_time", tuple(uses))
    uses = [*exchange.uses, *program_uses(session.steps, session.name)]
    edited = get_changed_files(uses)
    tests = sum(use.result.tests is not None for use in uses)
    report = exchange.answer
    if report is None:
        status, why = _ENDS[exchange.end]
    elif report.status == "done" and not edited and not tests:
        status, why = "replan", "success was claimed without an edit or a test result"
    else:
        status, why = report.status, ""
    return Candidate(
        number=number,
        status=status,
        summary="; ".join(filter(None, [why, report.summary if report else ""])),
        confidence=report.confidence if report else "low",
        tree=session.tree,
        diff=diff,
        edited=edited,
        written=get_written_files(uses),
        tests_run=tests,
    )


_ENDS: dict[End, tuple[CandidateStatus, str]] = {
    "out_of_rounds": ("replan", "out of rounds"),
    "context_full": ("blocked", "the context window was full"),
    "malformed": ("blocked", "no valid answer"),
    "repeated": ("blocked", "the same call was repeated"),
    "out_of_time": ("blocked", "the time was used up"),
}


T = TypeVar("T")

_STATUS_RANK = {"done": 0, "replan": 1, "blocked": 2}
_CONFIDENCE_RANK = {"high": 0, "medium": 1, "low": 2}


async def best_of(state: State, step: NextStep, session: Session) -> StepResult:
    """Make the step once or several times from the same work tree, and apply the best candidate.

    The chosen candidate's changes are kept, even if it asked for replanning. They are discarded if
    tests found them broken, because no later step can build on them.
    """
    start = session.tree

    async def attempt(number: int) -> Candidate:
        async with session.branch(
            f"candidate-{number}", start, limit_s=state.profile.phase_limit_s
        ) as branch:
            return await _try_candidate(state, step, number, branch)

    candidates = [await attempt(0)]
    first = candidates[0]
    if first.status == "replan":
        wanted = 1
    else:
        wanted = state.profile.candidates[first.confidence if first.accepted else "low"]
    while len(candidates) < wanted and (
        first.accepted or not any(candidate.accepted for candidate in candidates)
    ):
        wave = range(len(candidates), min(wanted, len(candidates) + state.profile.parallel))
        candidates += await together(attempt(number) for number in wave)
    chosen = min(candidates, key=rank)
    if not chosen.broken:
        await session.take(chosen.tree)
    return StepResult(step, tuple(candidates), chosen)


async def _try_candidate(state: State, step: NextStep, number: int, branch: Session) -> Candidate:
    """Make one candidate, and test and review it if it is done.

    Files that the tests leave behind are not part of it. If time runs out during tests or review,
    the candidate counts as blocked.
    """
    candidate = await implement(state, step, number, branch)
    if candidate.status != "done":
        return candidate
    try:
        covering = await find_covering(
            candidate.edited,
            candidate.diff,
            branch.scope("covering"),
            among=state.repository.test_files,
        )
        verification = await verify(
            state,
            branch.scope("verification"),
            named=[*step.tests, *covering],
            anchor_decides=not state.backlog,
        )
        candidate = replace(candidate, verification=verification)
        review = await review_step(state, step, candidate, branch.scope("review"))
        candidate = replace(candidate, review=review)
        if candidate.accepted and state.profile.snapshots:
            await branch.take(candidate.tree)
            await branch.snapshot()
            candidate = replace(candidate, tree=branch.tree)
    except OutOfTime as error:
        return replace(
            candidate, status="blocked", summary=str(error), verification=None, review=None
        )
    return candidate


def rank(candidate: Candidate) -> tuple[int, int, int, int, int]:
    """Return the sort key; the lowest candidate is the best.

    The order is status, review, passing tests, confidence, smaller diff.
    """
    passed = candidate.verification.passed if candidate.verification else 0
    return (
        _STATUS_RANK[candidate.status],
        0 if candidate.accepted else 1,
        -passed,
        _CONFIDENCE_RANK[candidate.confidence],
        len(candidate.diff),
    )


async def together(work: Iterable[Awaitable[T]]) -> list[T]:
    """Run all work concurrently and return the results in order.

    An error is raised only when all other work has ended by itself, so that no paid work is cut
    off.
    """
    results: list[T] = []
    for result in await asyncio.gather(*work, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result
        results.append(result)
    return results


PACKED_TOKENS = 12_000
"""Limit on all excerpts together, in tokens.

The last references of the gatherer are dropped first.
"""

_TOLD_TOKENS = 2_000
"""Limit on the excerpts in a tool's answer, in tokens."""

_GATHERER_ROUNDS = 12


class GatherContext(Arguments):
    """Have the lines found that answer questions about the code."""

    questions: list[str] = Field(min_length=1)


async def gather(
    state: State, questions: Sequence[str], session: Session, room_tokens: int = PACKED_TOKENS
) -> list[Excerpt]:
    """Return the lines that answer questions about the code, as they are in the work tree."""
    facts = {**state.as_facts("task", "context"), "questions": list(questions)}
    limits = state.limits(_GATHERER_ROUNDS)
    answer = await ask("gatherer", state, session, "gatherer", facts, Gathered, limits)
    return await _lines(answer.references, session, room_tokens) if answer else []


def _gather_helper(state: State) -> Helper:
    """Return the tool that gathers context for a working role."""

    async def work(arguments: GatherContext, session: Session) -> ToolResult:
        excerpts = await gather(state, arguments.questions, session, _TOLD_TOKENS)
        texts = []
        for excerpt in excerpts:
            place = f"{excerpt.path}, lines {excerpt.start} to {excerpt.end}"
            lines = enumerate(excerpt.text.split("\n"), excerpt.start)
            numbered = (f"{number}\t{line}" for number, line in lines)
            texts.append("\n".join([f"{place}: {excerpt.why}", *numbered]))
        return ToolResult("\n\n".join(texts) or "no lines were found")

    return Helper("gather_context", GatherContext, work)


async def read_again(state: State, session: Session) -> list[Excerpt]:
    """Read the same ranges of the context again, after files have changed."""
    references = [
        LineReference(path=excerpt.path, start=excerpt.start, end=excerpt.end, why=excerpt.why)
        for excerpt in state.context
    ]
    return await _lines(references, session, PACKED_TOKENS) if references else []


async def _lines(
    references: Sequence[LineReference], session: Session, room_tokens: int
) -> list[Excerpt]:
    """Read as many of the lines as fit. References that cannot be read are left out."""

    async def read(workspace: Workspace) -> list[Excerpt]:
        excerpts: list[Excerpt] = []
        room = room_tokens * CHARS_PER_TOKEN
        for reference in references:
            excerpt = await _read_excerpt(workspace, reference, room)
            if excerpt is not None:
                room -= len(excerpt.text)
                excerpts.append(excerpt)
        return excerpts

    request = {"references": [reference.model_dump() for reference in references]}
    return await session.act("read lines", request, read, list[Excerpt], depends_on=room_tokens)


async def _read_excerpt(
    workspace: Workspace, reference: LineReference, room: int
) -> Excerpt | None:
    """Return the first lines of a range, up to `room` characters, or None if there are none."""
    try:
        path = await confine(workspace, reference.path)
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
