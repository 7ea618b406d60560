"""The lean preset's control flow.

One conversation, the solver, reads, reproduces, edits and tests, as mini-swe-agent's does. Then the
gates decide on a fresh copy of the repository. A closed gate is repaired in the same conversation.
If it stays closed, an adjudicator rules on the cause, and a scout looks for another approach. The
best change is submitted in any case.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from functools import partial

from agent.arms.durable.answers import Ruling, Scouting, Work
from agent.arms.durable.gates import GateFinding, Judgement, best, judge, prepare_judge
from agent.arms.durable.options import LeanProfile
from agent.arms.durable.review import adjudicate, apply_ruling, review_change, scout
from agent.arms.durable.roles import conversation, network
from agent.arms.durable.state import Evidence
from agent.arms.durable.verification import change_of
from agent.conversation.conversation import prompt_beside
from agent.conversation.exchanges import Exchange, ToolUse, get_written_files
from agent.conversation.person import Person
from agent.errors import LimitReached, OutOfTime
from agent.ptc.tool import program_uses
from agent.session.session import BASE, Session
from agent.testfiles import BY_CONVENTION


@dataclass
class LeanState(Evidence):
    """All findings of an attempt of the lean preset."""

    profile: LeanProfile
    judged: list[Judgement] = field(default_factory=list)
    rulings: list[Ruling] = field(default_factory=list)
    plans: list[Scouting] = field(default_factory=list)
    is_reviewed: bool = False
    written: Callable[[], Collection[str]] = field(default=frozenset)
    """The files that the latest solver has written so far."""
    not_approved: int = 0
    """Number of changes at the beginning of `judged` that a person wants otherwise."""

    @property
    def chosen(self) -> Judgement | None:
        """The best change that a person may approve."""
        return best(self.judged[self.not_approved :])


async def work(
    state: LeanState, session: Session, limit_s: float | None, plan: Scouting | None = None
) -> None:
    """Work on the task until a change is accepted, or both approaches, limits or time are used up.

    The first approach follows the `plan`, if there is one.
    """
    try:
        scope = session.scope("work", limit_s=limit_s)
        await _approach(state, plan, scope.scope("approach-0"))
        earlier = best(state.judged)
        if state.profile.approaches and not (earlier is not None and earlier.accepted):
            other = await scout(state, state.judged, scope.scope("scout-1"))
            state.plans += [other] if other else []
            # A change that only lacks its completion is completed.
            is_kept = earlier is not None and not earlier.findings
            await scope.scope("restart-1").take(earlier.tree if earlier and is_kept else BASE)
            await _approach(state, other, scope.scope("approach-1"))
    except (OutOfTime, LimitReached) as error:
        state.ended = error
        await _rescue(state, session.scope("rescue"))


async def revise(state: LeanState, session: Session) -> None:
    """Let another conversation change the best change into what people want.

    If it makes no change, the one before stays the best.
    """
    chosen, before = state.chosen, state.not_approved
    state.not_approved, state.ended = len(state.judged), None
    try:
        await session.scope("restart").take(chosen.tree if chosen else BASE)
        await _approach(state, None, session.scope("approach"))
    except (OutOfTime, LimitReached) as error:
        state.ended = error
        await _rescue(state, session.scope("rescue"))
    if state.chosen is None:
        state.not_approved = before


async def _approach(state: LeanState, plan: Scouting | None, session: Session) -> None:
    """Let one conversation work and repair until its change is accepted or repairs are used up."""
    solver = Solver(state, plan, state.profile.rounds, session.scope("solve"))
    state.written = solver.get_written_files
    for turn in range(1 + state.profile.repairs):
        judging = session.scope(f"judge-{turn}")
        solver.on_edit = partial(prepare_judge, state, judging)
        exchange = await solver.talk.until_answer()
        judged = await _judge_change(state, exchange, judging)
        if judged.accepted and state.profile.review == "always" and not state.is_reviewed:
            state.is_reviewed = True
            review = await review_change(state, judged, session.scope(f"review-{turn}"))
            if review and review.verdict == "revise" and review.issues:
                findings = (GateFinding("review", tuple(review.issues)),)
                judged = replace(judged, findings=findings)
        state.judged.append(judged)
        if judged.accepted or exchange.answer is None or exchange.answer.status == "blocked":
            return
        solver.talk.tell(explain(judged))


async def _judge_change(state: LeanState, exchange: Exchange[Work], session: Session) -> Judgement:
    """Run the checks of the work so far. Ask for a ruling if the same test gate stays closed.

    The first time that code has no test, one is required. After that, the author's reason counts.
    """
    work = exchange.answer
    tests_count = work is not None and not work.test
    change = await change_of(
        session,
        state.written(),
        tests_count=tests_count,
        for_reviewers=state.task.for_reviewers,
    )
    judged = await judge(
        state,
        change,
        work,
        incomplete(exchange),
        session,
        insists_on_test=not state.judged and state.profile.repairs > 0,
    )
    last = state.judged[-1] if state.judged else None
    closed_again = judged.gates & last.gates & {"new_test", "regression"} if last else None
    if not (state.profile.adjudication and closed_again):
        return judged
    ruling = await adjudicate(state, judged, session.scope("ruling"))
    if ruling is None:
        return judged
    state.rulings.append(ruling)
    is_unchanged = last is not None and last.change.patch == change.patch
    insists = work is not None and bool(work.conflicting_tests) and is_unchanged
    return apply_ruling(state, ruling, judged, judged.failing if insists else ())


async def _rescue(state: LeanState, session: Session) -> None:
    """Keep the change of work that was cut off, although no test has judged it."""
    try:
        is_for = state.task.for_reviewers
        change = await change_of(session, state.written(), for_reviewers=is_for)
    except OutOfTime:
        return
    why = f"cut off before its tests: {state.ended}"
    if change.patch not in [judged.change.patch for judged in state.judged]:
        findings = (GateFinding("unverified", (why,)),)
        state.judged.append(
            Judgement(session.tree, change, "", "low", incomplete=why, findings=findings)
        )


_SHOWN_LINES = 20

_INCOMPLETE = {
    "out_of_rounds": "the conversation used up its model calls",
    "context_full": "the context window was full",
    "malformed": "no valid answer was given",
    "repeated": "the same call was repeated without another result",
}


class Solver:
    """One conversation about the task, and the files that it wrote."""

    def __init__(
        self, state: Evidence, plan: Scouting | None, rounds: int, session: Session
    ) -> None:
        """Open the conversation. With a `plan`, it follows the plan of a scout."""
        self._session = session
        self._uses: list[ToolUse] = []
        self.on_edit: Callable[[], None] = lambda: None
        """Called after each edit of a file that is not a test."""
        plan_facts = None
        if plan is not None:
            plan_facts = {
                "cause": plan.cause,
                "approach": plan.approach,
                "acceptance_criteria": plan.contract.acceptance_criteria,
                "must_stay": plan.contract.non_goals,
                "test_idea": plan.test_idea,
                "steps": [f"{step.title}: {step.instructions}" for step in plan.steps],
            }
        facts = {
            "task": state.task.statement,
            "root": session.workspaces.root,
            "network": network(session),
            "command_timeout_s": state.tools.command_timeout_s,
            "test_timeout_s": state.tools.test_timeout_s,
            "test_command": state.tools.runner.command,
            "test_problem": state.probe.reason,
            "earlier_test": state.new_test,
            "plan": plan_facts,
            **state.said,
        }
        self.talk = conversation(
            "solver",
            state,
            session,
            prompt_beside(__file__, "solving", for_reviewers=state.task.for_reviewers),
            facts,
            Work,
            state.limits(rounds),
            on_use=self._note,
            person=Person(session, heard=state.heard),
        )

    def _note(self, use: ToolUse) -> None:
        self._uses.append(use)
        if not all(map(BY_CONVENTION.owns, get_written_files([use]))):
            self.on_edit()

    def get_written_files(self) -> frozenset[str]:
        """Return the files that were passed to an editing tool, so that they exist on purpose."""
        in_programs = program_uses(self._session.steps, self._session.name)
        return frozenset(get_written_files([*self._uses, *in_programs]))


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
    if strays := judged.change.strays:
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
