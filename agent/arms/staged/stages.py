"""The conversations of the stages, each in a scope and a role of its own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field

from agent.arms.options import StagedOptions
from agent.capabilities.base import A, Agent, Crew, WorkReport, conversation
from agent.checks import PatchCheck, checked, debugging, find_covering
from agent.conversation.conversation import Conversation, prompt_beside
from agent.conversation.exchanges import Answer, Exchange
from agent.conversation.person import Dismissed, Person, said_by
from agent.index import query
from agent.journal import InboxMessage, TreeRef
from agent.models.patches import parse
from agent.session.session import BASE, Session
from agent.tools.rendering import head_and_tail
from agent.workspaces import Workspace

MOST_SUBTASKS = 6


class Findings(Answer):
    """Knowledge of the code for the next stages."""

    summary: str = Field(description="how the code works where the task is about it, and why")
    files: list[str] = Field(description="paths that have to change or to be read, with the reason")
    tests: list[str] = Field(default=[], description="paths of the existing tests of that code")


class Subtask(Answer):
    """One part of the work."""

    title: str = Field(min_length=1, description="a few words")
    instructions: str = Field(min_length=1, description="what to change, where, and why")


class SubtaskPlan(Answer):
    """The subtasks, in the order in which they are built."""

    subtasks: list[Subtask] = Field(
        min_length=1,
        max_length=MOST_SUBTASKS,
        description="as few as the task needs; a small task is one",
    )


Stage = Literal["explore", "plan", "build", "repair"]

_CAPABILITIES: dict[Stage, tuple[str, ...]] = {
    "explore": ("look", "symbols"),
    "plan": ("look", "symbols"),
    "build": ("files", "symbols", "shell", "tests"),
    "repair": ("files", "symbols", "shell", "tests"),
}

_SHOWN_DIFF = 20_000
"""Characters of the change that a repair is shown."""


@dataclass(frozen=True)
class Staff:
    """The agents of an attempt."""

    crew: Crew
    options: StagedOptions

    def agent(self, stage: Stage, more: str = "", prompt: str = "") -> Agent:
        """Return the agent of a stage. `more` is appended to its prompt, or to another one."""
        prompt = f"{prompt_beside(__file__, prompt or stage)}\n{more}".strip()
        rounds: int = getattr(self.options.rounds, stage)
        return Agent(self.crew, stage, self.crew.load(_CAPABILITIES[stage]), rounds, prompt)

    async def answered(
        self, agent: Agent, facts: Mapping[str, Any], answer: type[A], session: Session
    ) -> Exchange[A]:
        """Let the agent of a stage work until it answers. People may write to it meanwhile."""
        return await self.talk(agent, facts, answer, session).until_answer()

    def talk(
        self, agent: Agent, facts: Mapping[str, Any], answer: type[A], session: Session
    ) -> Conversation[A]:
        """Open the conversation of the agent of a stage."""
        task = {"task": self.crew.task.statement, "stage": agent.role}
        return conversation(agent, {**task, **facts}, answer, session, Person(session))


async def explore(staff: Staff, session: Session) -> Findings | None:
    """Read the code. Return what was found, or None without a valid answer."""
    agent = staff.agent("explore")
    exchange = await staff.answered(agent, {}, Findings, session)
    return exchange.answer


async def plan(
    staff: Staff, findings: Findings | None, session: Session
) -> tuple[SubtaskPlan, dict[str, Any]]:
    """Return the plan, with what a person said who approved it as a fact for the builders.

    Without a valid plan, the whole task is its only subtask.

    Raises:
        Dismissed: a person rejected the plan or ended the attempt.
        Waiting: there is no decision yet; the next message resumes the attempt.
    """
    talk = staff.talk(staff.agent("plan"), {"findings": _shown(findings)}, SubtaskPlan, session)
    while True:
        made = (await talk.until_answer()).answer or SubtaskPlan(
            subtasks=[Subtask(title="the whole task", instructions="Do what the task says.")]
        )
        if staff.options.approval != "plan":
            return made, {}
        decided = await talk.decided(_as_text(made))
        if decided.kind == "reject":
            raise Dismissed(decided.why)
        if decided.kind == "approve":
            return made, {"approved_with": decided.text} if decided.text.strip() else {}


def _as_text(plan: SubtaskPlan) -> str:
    """Return a plan as text for a person."""
    return "\n\n".join(
        f"{number}. {each.title}\n{each.instructions}"
        for number, each in enumerate(plan.subtasks, 1)
    )


async def build(
    staff: Staff,
    findings: Findings | None,
    plan: SubtaskPlan,
    number: int,
    approval: Mapping[str, Any],
    session: Session,
) -> str:
    """Build a subtask. Return what its agent reports. `approval` is the second result of `plan`."""
    agent, subtask = staff.agent("build"), plan.subtasks[number]
    facts = {
        "findings": _shown(findings),
        "plan": [each.title for each in plan.subtasks],
        **approval,
        "subtask": subtask.model_dump(),
    }
    exchange = await staff.answered(agent, facts, WorkReport, session)
    return exchange.answer.summary if exchange.answer else f"no report: {exchange.end}"


async def revise(staff: Staff, patch: str, heard: Sequence[InboxMessage], session: Session) -> str:
    """Change a patch into what people want. Return what the agent reports."""
    agent = staff.agent("repair", prompt="revise")
    facts = {**said_by(heard), "diff": head_and_tail(patch, _SHOWN_DIFF)}
    exchange = await staff.answered(agent, facts, WorkReport, session)
    return exchange.answer.summary if exchange.answer else f"no report: {exchange.end}"


@dataclass(frozen=True)
class Verified:
    """A change and what its tests say."""

    patch: str
    tree: TreeRef
    """The work tree with the change."""
    check: PatchCheck
    """Of no tests, if the repository has none for it."""

    @property
    def passes(self) -> bool:
        """True if there is a change and no test speaks against it."""
        return not self.check.failures

    @property
    def error(self) -> str:
        """A summary of the failures, to compare with others."""
        return "\n".join([*self.check.failures, self.check.output])


async def repair(staff: Staff, found: Verified, errors: Sequence[str], session: Session) -> str:
    """Repair a change that does not pass. Return what the agent reports.

    `errors` are the last similar ones. With more than one, the agent works by root cause.
    """
    is_stuck = debugging.is_stuck(list(errors))
    agent = staff.agent("repair", debugging.ROOT_CAUSE if is_stuck else "")
    facts = {
        "failures": list(found.check.failures),
        **({"not_run": list(found.check.left_out)} if found.check.left_out else {}),
        "output": found.check.output,
        "earlier_errors": list(errors) if is_stuck else [],
        "diff": head_and_tail(found.patch, _SHOWN_DIFF),
    }
    exchange = await staff.answered(agent, facts, WorkReport, session)
    return exchange.answer.summary if exchange.answer else f"no report: {exchange.end}"


def _shown(findings: Findings | None) -> dict[str, Any]:
    return findings.model_dump() if findings else {}


_EVERYTHING: tuple[str, ...] = (".",)
"""The paths for a test command that always runs all tests."""


async def verify(crew: Crew, session: Session, number: int) -> Verified:
    """Test the change so far.

    The existing tests of the changed files run without and with it, and those that it adds with it.
    A test command that takes no paths runs all tests.
    """
    patch, tree = await session.diff(), session.tree
    if not patch:
        return Verified(patch, tree, PatchCheck((), ("nothing was changed",)))
    async with session.branch(f"verify-{number}", BASE) as fresh:
        return Verified(patch, tree, await _check(crew, patch, fresh))


async def _check(crew: Crew, patch: str, fresh: Session) -> PatchCheck:
    files = parse(patch)
    added = await _tests_among([file.name for file in files if file.old_path is None], fresh)
    tests, new = _EVERYTHING, tuple[str, ...]()
    if crew.tools.runner.takes_paths:
        changed = sorted({path for file in files for path in file.paths if path not in added})
        tests, new = tuple(await find_covering(changed, patch, fresh)), tuple(added)
    if not tests and not new:
        return PatchCheck((), ())
    return await checked(patch, tests, crew.tools, crew.protection, fresh, new)


async def _tests_among(paths: Sequence[str], fresh: Session) -> list[str]:
    """Return the files from which the repository's test runner collects tests."""
    if not paths:
        return []

    async def look(workspace: Workspace) -> list[str]:
        collects = (await query(workspace, lambda each: each.symbols.test_files)).collects
        return [path for path in paths if collects(path)]

    asked = {"paths": list(paths)}
    return await fresh.act("tests among", asked, look, list[str], depends_on={})
