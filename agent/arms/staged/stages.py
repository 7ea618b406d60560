"""The conversations of the stages, each in a scope and a role of its own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from agent.arms.options import StagedOptions
from agent.arms.staged.answers import Findings, Subtask, SubtaskPlan
from agent.arms.staged.verification import Verified
from agent.capabilities.base import Agent, Crew
from agent.capabilities.working import A, WorkReport, conversation
from agent.checks import debugging
from agent.conversation.conversation import Conversation, prompt_beside
from agent.conversation.exchanges import Exchange
from agent.conversation.person import Dismissed, Person, said_by
from agent.journal import InboxMessage
from agent.session.session import Session
from agent.tools.rendering import head_and_tail

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


async def repair(staff: Staff, found: Verified, errors: Sequence[str], session: Session) -> str:
    """Repair a change that does not pass. Return what the agent reports.

    `errors` are the last similar ones. With more than one, the agent works by root cause.
    """
    is_stuck = debugging.is_stuck(list(errors))
    agent = staff.agent("repair", debugging.ROOT_CAUSE if is_stuck else "")
    facts = {
        "failures": list(found.failures),
        **({"not_run": list(found.left_out)} if found.left_out else {}),
        "output": found.output,
        "earlier_errors": list(errors) if is_stuck else [],
        "diff": head_and_tail(found.patch, _SHOWN_DIFF),
    }
    exchange = await staff.answered(agent, facts, WorkReport, session)
    return exchange.answer.summary if exchange.answer else f"no report: {exchange.end}"


def _shown(findings: Findings | None) -> dict[str, Any]:
    return findings.model_dump() if findings else {}
