"""The scout: another approach to a task, found by reading only."""

from collections.abc import Sequence
from typing import Any

from agent.arms.durable.answers import Scouting
from agent.arms.durable.gates import Judgement
from agent.arms.durable.implementation import SHOWN_DIFF
from agent.arms.durable.roles import conversation
from agent.arms.durable.state import SHOWN_TEST_FILES, Evidence
from agent.conversation.conversation import prompt_beside
from agent.session.session import Session
from agent.tools.rendering import head_and_tail

_ROUNDS = 20


async def scout(
    state: Evidence,
    judged: Sequence[Judgement],
    session: Session,
    not_approved: Scouting | None = None,
) -> Scouting | None:
    """Return a plan that differs from what was tried, or None without a valid answer.

    `not_approved` is the last plan, if a person wants another one.
    """
    facts = {
        "task": state.task.statement,
        "root": session.root,
        "test_files": state.repository.test_files[:SHOWN_TEST_FILES],
        "earlier": _earlier(judged[-1]) if judged else None,
        **({"not_approved": not_approved.model_dump()} if not_approved else {}),
        **state.said,
    }
    prompt, limits = prompt_beside(__file__), state.limits(_ROUNDS)
    talk = conversation("scout", state, session, prompt, facts, Scouting, limits)
    return (await talk.until_answer()).answer


def _earlier(judged: Judgement) -> dict[str, Any]:
    return {
        "summary": judged.summary,
        "unfinished": judged.incomplete,
        "failed_checks": [line for finding in judged.findings for line in finding.lines[:10]],
        "output": "\n".join(finding.evidence for finding in judged.findings),
        "diff": head_and_tail(judged.change.patch, SHOWN_DIFF),
    }
