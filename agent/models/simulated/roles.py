"""The durable arm's roles and their scripts.

The answers are the JSON of the classes in `agent/arms/durable/answers.py`.
"""

import re
from pathlib import PurePosixPath
from typing import Any

from agent.errors import ModelError
from agent.models.patches import FilePatch
from agent.models.simulated import anchor, implementer, planner, reviewers
from agent.models.simulated.conversation import Action, Conversation, Facts
from agent.models.simulated.draws import Draws
from agent.models.simulated.reference import Reference
from agent.models.spec import SimulatedSpec

_FEATURE = re.compile(
    r"\b(feature|support|add|allow|implement|miss|would be nice)\b", re.IGNORECASE
)

_MOST_REGRESSION_TESTS = 3
_LINES_AROUND = 10


def script(
    conversation: Conversation, reference: Reference, draws: Draws, spec: SimulatedSpec
) -> list[Action]:
    """Return all actions of the role in a conversation with these facts, one call per reply.

    Raises:
        ModelError: the role is unknown.
    """
    facts = conversation.facts
    match conversation.role:
        case "contract":
            return [_contract(facts.get("task") or reference.task.statement)]
        case "gatherer":
            return _gather(reference)
        case "brief":
            return [_brief(reference, facts, draws)]
        case "anchor":
            return anchor.write(reference, facts, draws)
        case "planner":
            return planner.write(reference, conversation, draws)
        case "implementer":
            return implementer.write(
                reference, conversation, draws, skill=spec.skill, cheating=spec.cheating
            )
        case "step_reviewer" | "final_reviewer":
            accuracy = spec.reviewer_accuracy
            return reviewers.write(reference, conversation, draws, accuracy=accuracy)
        case role:
            raise ModelError(f"the simulated model knows no role {role!r}", retryable=False)


def _contract(statement: str) -> Action:
    lines = [line.strip("#* \t\r") for line in statement.splitlines() if line.strip()]
    goal = lines[0] if lines else "Do what the task says."
    wanted = _FEATURE.search(" ".join(lines[:3]))
    return _answer(
        "The task is clear.",
        kind="feature" if wanted else "bugfix",
        goal=goal,
        acceptance_criteria=[f"This holds: {goal}", "The existing tests still pass."],
    )


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
        regression_tests=_regression_tests(reference, facts.get("test_files") or []),
        backlog=[planner.item(part) for part in parts],
    )


def _regression_tests(reference: Reference, test_files: list[str]) -> list[str]:
    """Return the test files. Those that name a touched module come first."""
    modules = {PurePosixPath(path).stem for path in reference.paths}

    def names_none(test: str) -> bool:
        return not any(module in PurePosixPath(test).stem for module in modules)

    return sorted(test_files, key=names_none)[:_MOST_REGRESSION_TESTS]


def _answer(thought: str, **fields: Any) -> Action:
    return Action(thought, "answer", fields)
