"""Roles and their scripts: those of the durable arm, stages, and agents on the loop.

The answers are the JSON of the classes in `agent/arms/durable/answers.py`.
"""

import re
from typing import Any

from agent.errors import ModelError
from agent.models.patches import FilePatch
from agent.models.simulated import anchor, implementer, loop, planner, reviewers, solver, staged
from agent.models.simulated.conversation import Action, Reply, RoleRequest, grouped
from agent.models.simulated.reference import Draws, Facts, Reference
from agent.models.spec import SimulatedSpec

_FEATURE = re.compile(
    r"\b(feature|support|add|allow|implement|miss|would be nice)\b", re.IGNORECASE
)

_LINES_AROUND = 10


def next_reply(
    conversation: RoleRequest, reference: Reference, draws: Draws, spec: SimulatedSpec
) -> Reply:
    """Return the next reply of the role in a conversation.

    Raises:
        ModelError: the role is unknown.
    """
    if conversation.role == "solver":
        return solver.next_reply(reference, conversation, draws, spec)
    if staged.is_stage(conversation):
        return staged.next_reply(reference, conversation, draws, spec)
    if loop.is_agent(conversation):
        return loop.next_reply(reference, conversation, draws, spec)
    actions = _script(conversation, reference, draws, spec)
    chance = spec.parallel_calls if conversation.native else 0.0
    replies = grouped(actions, draws, chance, f"{conversation.role}/{conversation.scope}")
    return replies[min(len(conversation.results), len(replies) - 1)]


def _script(
    conversation: RoleRequest, reference: Reference, draws: Draws, spec: SimulatedSpec
) -> list[Action]:
    """Return all actions of a role that does not depend on the results of its calls."""
    facts = conversation.facts
    match conversation.role:
        case "contract":
            return [_answer("The task is clear.", **_contract(_statement(reference, facts)))]
        case "gatherer":
            return _gather(reference)
        case "brief":
            return [_brief(reference, facts, draws)]
        case "anchor":
            return anchor.write(reference, conversation, draws, spec)
        case "planner":
            return planner.write(reference, conversation, draws)
        case "implementer":
            return implementer.write(reference, conversation, draws, spec)
        case "scout":
            return _scout(reference, facts)
        case "adjudicator":
            return reviewers.adjudicate(reference, conversation, draws, spec)
        case "step_reviewer" | "final_reviewer":
            return reviewers.review(reference, conversation, draws, spec)
        case role:
            raise ModelError(f"the simulated model knows no role {role!r}", retryable=False)


def _statement(reference: Reference, facts: Facts) -> str:
    return str(facts.get("task") or reference.task.statement)


def _contract(statement: str) -> dict[str, Any]:
    lines = [line.strip("#* \t\r") for line in statement.splitlines() if line.strip()]
    goal = lines[0] if lines else "Do what the task says."
    wanted = _FEATURE.search(" ".join(lines[:3]))
    return {
        "kind": "feature" if wanted else "bugfix",
        "goal": goal,
        "acceptance_criteria": [f"This holds: {goal}", "The existing tests still pass."],
    }


def _gather(reference: Reference) -> list[Action]:
    known = [file for file in reference.files if file.old_path]
    look = [Action("I look at it.", "read", {"path": file.old_path}) for file in known[:1]]
    references = [found for file in known for found in _references(file)]
    return [*look, _answer("These lines matter.", references=references)]


def _references(file: FilePatch) -> list[dict[str, Any]]:
    return [
        {
            "path": file.old_path,
            "start": max(1, hunk.old_start - _LINES_AROUND),
            "end": max(1, hunk.old_start + hunk.old_count + _LINES_AROUND),
            "why": "this has to change",
        }
        for hunk in file.hunks
    ]


def _scout(reference: Reference, facts: Facts) -> list[Action]:
    names = ", ".join(file.name for file in reference.files)
    step = {
        "title": f"Change {names}",
        "instructions": f"Change {names} so that it does what the task says.",
        "targets": sorted(reference.paths),
    }
    plan = _answer(
        "I know how to do it.",
        contract=_contract(_statement(reference, facts)),
        cause=f"What the task describes comes from {names}.",
        approach="Begin again, and follow the text of the task closely.",
        test_idea=f"Assert that {names} is what the task asks for.",
        related_tests=reference.related(facts.get("test_files") or []),
        steps=[step],
    )
    return [*implementer.reads(reference.files), plan]


def _brief(reference: Reference, facts: Facts, draws: Draws) -> Action:
    # The file that the anchor test checks comes first, so that the test soon shows good work.
    check = anchor.chosen(reference, draws)
    first = check.path if check else ""
    parts = sorted(reference.parts, key=lambda part: all(file.name != first for file in part))
    names = ", ".join(file.name for part in parts for file in part)
    return _answer(
        "I know where this happens.",
        summary=f"What the task describes comes from {names}.",
        anchor_path=anchor.place(reference, facts),
        anchor_idea=f"Assert that {first or names} is what the task asks for.",
        round_trip=False,
        regression_tests=reference.related(facts.get("test_files") or []),
        backlog=[planner.item(part) for part in parts],
    )


def _answer(thought: str, **fields: Any) -> Action:
    return Action(thought, "answer", fields)
