"""The solver: one conversation that reads, reproduces, edits and tests until the gates open."""

from collections.abc import Callable
from typing import Any

from agent.arms.durable.answers import Scouting, Work
from agent.arms.durable.gates import Judgement
from agent.arms.durable.roles import conversation, network
from agent.arms.durable.state import Evidence
from agent.conversation.conversation import prompt_beside
from agent.conversation.exchanges import Exchange, ToolUse, written_files
from agent.conversation.person import Person
from agent.ptc.tool import program_uses
from agent.session.session import Session
from agent.testfiles import BY_CONVENTION

_SHOWN_LINES = 20

_INCOMPLETE = {
    "out_of_rounds": "the conversation used up its model calls",
    "context_full": "the context window was full",
    "malformed": "no valid answer was given",
}


class Solver:
    """One conversation about the task, and the files that it wrote."""

    def __init__(
        self, state: Evidence, plan: Scouting | None, rounds: int, session: Session
    ) -> None:
        """Open the conversation. With a `plan`, it follows the plan of a scout."""
        self._session = session
        self._uses: list[ToolUse] = []
        self._on_edit: Callable[[], None] = lambda: None
        facts, prompt = _facts(state, plan, session), prompt_beside(__file__)
        limits, person = state.limits(rounds), Person(session, heard=state.heard)
        self._talk = conversation(
            "solver",
            state,
            session,
            prompt,
            facts,
            Work,
            limits,
            on_use=self._note,
            person=person,
        )

    async def work(self, on_edit: Callable[[], None]) -> Exchange[Work]:
        """Let the solver work until it answers or its rounds are used up.

        `on_edit` is called after each edit of a file that is no test.
        """
        self._on_edit = on_edit
        return await self._talk.until_answer()

    def _note(self, use: ToolUse) -> None:
        self._uses.append(use)
        if not all(map(BY_CONVENTION.owns, written_files([use]))):
            self._on_edit()

    def tell(self, judged: Judgement) -> None:
        """Tell the solver which gates are closed, so that its work continues."""
        self._talk.tell(explain(judged))

    def written(self) -> frozenset[str]:
        """Return the files that were passed to an editing tool, so that they exist on purpose."""
        in_programs = program_uses(self._session.steps, self._session.name)
        return frozenset(written_files([*self._uses, *in_programs]))


def incomplete(exchange: Exchange[Work]) -> str:
    """Return the reason why the work is not reported as done, or ''."""
    work = exchange.answer
    if work is None:
        return _INCOMPLETE[exchange.end]
    if work.remaining:
        return f"not done yet: {'; '.join(work.remaining)}"
    return f"blocked: {work.summary}" if work.status == "blocked" else ""


def explain(judged: Judgement) -> str:
    """Return the message to the solver about the closed gates."""
    if not judged.findings:
        return f"The checks pass so far. {judged.incomplete}. Do what remains, and answer again."
    parts = ["The checks on a fresh copy of the repository, with only your change, failed:"]
    for finding in judged.findings:
        lines = finding.lines[:_SHOWN_LINES]
        more = len(finding.lines) - len(lines)
        parts += [f"- {line}" for line in lines]
        if more:
            parts.append(f"- [{more} more]")
        if finding.evidence:
            parts.append(f"```\n{finding.evidence}\n```")
    parts += [f"Not run: {line}." for line in judged.runs.left_out[:_SHOWN_LINES]]
    if judged.change.strays:
        strays = judged.change.strays
        names = ", ".join(strays[:_SHOWN_LINES])
        others = f" and {len(strays) - _SHOWN_LINES} more" if len(strays) > _SHOWN_LINES else ""
        parts.append(
            "Not part of the change, because a command made them and no editing tool: "
            f"{names}{others}."
        )
    parts.append(
        "Correct the code, or your new test if that is wrong, and answer again. If an existing "
        "test expects exactly the behaviour that the task changes, name it in `conflicting_tests`."
    )
    return "\n".join(parts)


def _facts(state: Evidence, plan: Scouting | None, session: Session) -> dict[str, Any]:
    return {
        "task": state.task.statement,
        "root": session.root,
        "network": network(session),
        "command_timeout_s": state.tools.command_timeout_s,
        "test_timeout_s": state.tools.test_timeout_s,
        "test_command": state.tools.runner.command,
        "test_problem": state.probe.reason,
        "earlier_test": state.new_test,
        "plan": _plan(plan) if plan else None,
        **state.said,
    }


def _plan(plan: Scouting) -> dict[str, Any]:
    return {
        "cause": plan.cause,
        "approach": plan.approach,
        "acceptance_criteria": plan.contract.acceptance_criteria,
        "must_stay": plan.contract.non_goals,
        "test_idea": plan.test_idea,
        "steps": [f"{step.title}: {step.instructions}" for step in plan.steps],
    }
