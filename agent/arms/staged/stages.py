"""The conversations of the stages, each with a separate scope and role."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field

from agent.arms.options import StagedOptions
from agent.capabilities.base import A, Agent, Crew, WorkReport, conversation
from agent.checks import PatchCheck, check_patch, debugging, find_covering
from agent.conversation.conversation import Conversation, prompt_beside
from agent.conversation.exchanges import Answer
from agent.conversation.person import Dismissed, Person, get_message_facts
from agent.index import query
from agent.journal import InboxMessage, TreeRef
from agent.models.patches import parse
from agent.session.session import BASE, Session
from agent.shortening import head_and_tail
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

_DIFF_CHARS = 20_000
"""Maximum length of the change in the facts of a repair."""


@dataclass(frozen=True)
class Staff:
    """The agents of an attempt."""

    crew: Crew
    options: StagedOptions

    def talk(
        self,
        stage: Stage,
        facts: Mapping[str, Any],
        answer: type[A],
        session: Session,
        *,
        prompt: str = "",
        more: str = "",
    ) -> Conversation[A]:
        """Open the conversation of a stage, in which people can take part.

        Its prompt is the stage's own or another one, and `more`.
        """
        is_for = self.crew.task.for_reviewers
        text = f"{prompt_beside(__file__, prompt or stage, for_reviewers=is_for)}\n{more}".strip()
        rounds: int = getattr(self.options.rounds, stage)
        agent = Agent(self.crew, stage, self.crew.load(_CAPABILITIES[stage]), rounds, text)
        task = {"task": self.crew.task.statement, "stage": stage}
        return conversation(agent, {**task, **facts}, answer, session, Person(session))

    async def work(
        self,
        stage: Stage,
        facts: Mapping[str, Any],
        session: Session,
        *,
        prompt: str = "",
        more: str = "",
    ) -> str:
        """Let the agent of a stage work until it reports. Return its report."""
        talk = self.talk(stage, facts, WorkReport, session, prompt=prompt, more=more)
        exchange = await talk.until_answer()
        return exchange.answer.summary if exchange.answer else f"no report: {exchange.end}"


async def explore(staff: Staff, session: Session) -> dict[str, Any]:
    """Read the code. Return the findings, empty without a valid answer."""
    answer = (await staff.talk("explore", {}, Findings, session).until_answer()).answer
    return answer.model_dump() if answer else {}


async def plan(
    staff: Staff, findings: Mapping[str, Any], session: Session
) -> tuple[SubtaskPlan, dict[str, Any]]:
    """Return the plan, and a fact for the builders: the words of the person who approved it.

    Without a valid plan, the whole task is its only subtask.

    Raises:
        Dismissed: a person rejected the plan or ended the attempt.
        Waiting: there is no decision yet; the next message resumes the attempt.
    """
    talk = staff.talk("plan", {"findings": findings}, SubtaskPlan, session)
    while True:
        subtasks = (await talk.until_answer()).answer or SubtaskPlan(
            subtasks=[Subtask(title="the whole task", instructions="Do what the task says.")]
        )
        if staff.options.approval != "plan":
            return subtasks, {}
        text = "\n\n".join(
            f"{number}. {subtask.title}\n{subtask.instructions}"
            for number, subtask in enumerate(subtasks.subtasks, 1)
        )
        decision = await talk.wait_for_decision(text)
        if decision.kind == "reject":
            raise Dismissed(decision.why)
        if decision.kind == "approve":
            return subtasks, {"approved_with": decision.text} if decision.text.strip() else {}


async def revise(
    staff: Staff, patch: str, messages: Sequence[InboxMessage], session: Session
) -> str:
    """Change a patch as people requested. Return the agent's report."""
    facts = {**get_message_facts(messages), "diff": head_and_tail(patch, _DIFF_CHARS)}
    return await staff.work("repair", facts, session, prompt="revise")


@dataclass(frozen=True)
class Verified:
    """A change, and the results of its tests."""

    patch: str
    tree: TreeRef
    """The work tree with the change."""
    check: PatchCheck
    """Of no tests, if the repository has none for it."""

    @property
    def passes(self) -> bool:
        """True if there is a change, and no test fails because of it."""
        return not self.check.failures

    @property
    def error(self) -> str:
        """A summary of the failures, to compare with others."""
        return "\n".join([*self.check.failures, self.check.output])


async def repair(staff: Staff, change: Verified, errors: Sequence[str], session: Session) -> str:
    """Repair a change that does not pass. Return the agent's report.

    `errors` are the last similar ones. With more than one, the agent works by root cause.
    """
    check, is_stuck = change.check, debugging.is_stuck(list(errors))
    facts = {
        "failures": list(check.failures),
        **({"not_run": list(check.left_out)} if check.left_out else {}),
        "output": check.output,
        "earlier_errors": list(errors) if is_stuck else [],
        "diff": head_and_tail(change.patch, _DIFF_CHARS),
    }
    more = debugging.ROOT_CAUSE if is_stuck else ""
    return await staff.work("repair", facts, session, more=more)


async def verify(crew: Crew, session: Session, number: int) -> Verified:
    """Test the change so far.

    The existing tests of the changed files run without and with it, new tests only with it. Tests
    that it changes for reviewers are new ones. No change is an answer for them if it is again none.
    A test command that takes no paths runs all tests.
    """
    patch, tree = await session.diff(), session.tree
    if not patch:
        is_answer = crew.task.for_reviewers and number > 1
        return Verified(patch, tree, PatchCheck((), () if is_answer else ("nothing was changed",)))
    files = parse(patch)
    async with session.branch(f"verify-{number}", BASE) as fresh:
        is_for = crew.task.for_reviewers
        added = [file.name for file in files if file.old_path is None or is_for]
        runs = crew.tools.runner.runs
        new_tests = list(filter(runs, await _select_tests(added, fresh) if added else []))
        if crew.tools.runner.takes_paths:
            changed = sorted({path for file in files for path in file.paths} - {*new_tests})
            tests = list(filter(runs, await find_covering(changed, patch, fresh)))
        else:
            tests, new_tests = ["."], []
        check = PatchCheck((), ())
        if tests or new_tests:
            tools, protection = crew.tools, crew.protection
            check = await check_patch(patch, tests, tools, protection, fresh, new_tests)
    return Verified(patch, tree, check)


async def _select_tests(paths: list[str], fresh: Session) -> list[str]:
    """Return the files that the repository's test runner collects."""

    async def select(workspace: Workspace) -> list[str]:
        collects = (await query(workspace, lambda index: index.symbols.test_files)).collects
        return [path for path in paths if collects(path)]

    return await fresh.act("tests among", {"paths": paths}, select, list[str], depends_on={})
