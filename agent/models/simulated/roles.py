"""Roles and their scripts: those of the durable arm that ask, find, plan, describe and judge.

The answers are the JSON of the classes in `agent/arms/durable/answers.py`. Reviewers know the
truth, and state it as often as the specification says.
"""

import re
from collections.abc import Sequence
from typing import Any

from agent.errors import ModelError
from agent.models.patches import FilePatch
from agent.models.simulated import anchor, implementer, loop, solver
from agent.models.simulated.conversation import Action, Reply, RoleRequest, answer
from agent.models.simulated.reference import Draws, Facts, Reference, item, unlike

_FEATURE = re.compile(
    r"\b(feature|support|add|allow|implement|miss|would be nice)\b", re.IGNORECASE
)

_LINES_AROUND = 10


def next_reply(asked: RoleRequest) -> Reply:
    """Return the next reply of the role in a conversation.

    Raises:
        ModelError: the role is unknown.
    """
    if asked.role == "solver":
        return solver.next_reply(asked)
    if loop.is_agent(asked):
        return loop.next_reply(asked)
    actions = loop.write_stage(asked) if loop.is_stage(asked) else _script(asked)
    replies = asked.in_replies(actions, f"{asked.role}/{asked.scope}")
    return asked.next_of(replies)


def _script(asked: RoleRequest) -> list[Action]:
    """Return all actions of a role that does not depend on the results of its calls."""
    facts = asked.facts
    match asked.role:
        case "contract":
            return [answer("The task is clear.", **_contract(_statement(asked.reference, facts)))]
        case "gatherer":
            return _gather(asked.reference)
        case "brief":
            return [_brief(asked.reference, facts, asked.draws)]
        case "anchor":
            return anchor.write(asked)
        case "planner":
            return plan_next(asked)
        case "implementer":
            return implementer.write(asked)
        case "scout":
            return _scout(asked.reference, facts)
        case "adjudicator":
            return adjudicate(asked)
        case "step_reviewer" | "final_reviewer":
            return review(asked)
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
    return [*look, answer("These lines matter.", references=references)]


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
    plan = answer(
        "I know how to do it.",
        contract=_contract(_statement(reference, facts)),
        cause=f"What the task describes comes from {names}.",
        approach="Begin again, and follow the text of the task closely.",
        test_idea=f"Assert that {names} is what the task asks for.",
        related_tests=reference.find_related(facts.get("test_files") or []),
        steps=[step],
    )
    return [*implementer.reads(reference.files), plan]


def _brief(reference: Reference, facts: Facts, draws: Draws) -> Action:
    # The file that the anchor test checks comes first, so that the test soon shows good work.
    check = anchor.chosen(reference, draws)
    first = check.path if check else ""
    parts = sorted(reference.parts, key=lambda part: all(file.name != first for file in part))
    names = ", ".join(file.name for part in parts for file in part)
    return answer(
        "I know where this happens.",
        summary=f"What the task describes comes from {names}.",
        anchor_path=anchor.place(reference, facts),
        anchor_idea=f"Assert that {first or names} is what the task asks for.",
        round_trip=False,
        regression_tests=reference.find_related(facts.get("test_files") or []),
        backlog=[item(part) for part in parts],
    )


# Probability that the planner asks about the code first, if it has not seen any of it.
_CURIOSITY = 0.3

# Status of a step that has to be repeated.
_FAILED = ("revise", "replan", "blocked")


def plan_next(asked: RoleRequest) -> list[Action]:
    """Return the script of one turn: a look at the code if none was given, then the answer."""
    facts = asked.facts
    items = _items(asked.reference, facts)
    files, rest = _next(asked.reference, facts, items)
    if not files:
        return [_turn("Nothing is left to be done.", backlog=[], done=True)]
    names = ", ".join(file.name for file in files)
    draw = f"planner/{asked.scope}/{asked.number}/curiosity"
    if not facts.get("context") and asked.draws.hits(_CURIOSITY, draw):
        question = f"What does {names} look like, and who uses it?"
        return [_turn("I want to see more.", backlog=items, context_needed=[question])]
    turn = _turn(
        f"Next is {names}.",
        facts=[f"{names} has to change."],
        next_step={
            "title": item(files),
            "instructions": f"Change {names} so that it does what the task says.",
            "targets": [path for file in files for path in file.paths],
            "tests": facts.get("regression_tests") or [],
        },
        backlog=[line for line in rest if not _is_about(asked.reference, line, files)],
    )
    known = files[0].old_path
    if facts.get("context") or known is None:
        return [turn]
    return [Action(f"I look at {known}.", "read", {"path": known}), turn]


def _items(reference: Reference, facts: Facts) -> list[str]:
    """Return the given backlog, or the whole patch if the work begins without one."""
    backlog = facts.get("backlog") or []
    begins = not facts.get("completed_steps") and not facts.get("last_step")
    return backlog if backlog or not begins else [item(part) for part in reference.parts]


def _next(
    reference: Reference, facts: Facts, items: list[str]
) -> tuple[list[FilePatch], list[str]]:
    """Return the files to change now, none if nothing remains, and the rest of the backlog."""
    last = facts.get("last_step") or {}
    if last.get("status") in _FAILED or last.get("review_issues"):
        again = reference.find_named(last.get("title") or "")
        if again or not items:
            return again or _wrong_ones(reference, facts), items
    for position, line in enumerate(items, 1):
        if files := reference.find_named(line) or _wrong_ones(reference, facts):
            return files, items[position:]
    return [], []


def _wrong_ones(reference: Reference, facts: Facts) -> list[FilePatch]:
    """Return the files for a backlog line that names none, such as that of a failing test.

    These are the files that the diff shows to be wrong, or all files if there is no diff.
    """
    if facts.get("diff") is None:
        return reference.files
    changed = reference.get_changes(facts)
    wrong = unlike(changed, reference.files)
    return reference.touching(wrong) if wrong or reference.strays(changed) else []


def _is_about(reference: Reference, text: str, files: list[FilePatch]) -> bool:
    named = reference.find_named(text)
    return all(file in files for file in named) and bool(named)


def _turn(
    thought: str,
    *,
    backlog: list[str],
    facts: Sequence[str] = (),
    context_needed: Sequence[str] = (),
    next_step: dict[str, Any] | None = None,
    done: bool = False,
) -> Action:
    return answer(
        thought,
        facts=list(facts),
        context_needed=list(context_needed),
        next_step=next_step,
        backlog=backlog,
        done=done,
    )


def review(asked: RoleRequest) -> list[Action]:
    """Return the script of a reviewer, which is one answer."""
    files = _get_judged_files(asked)
    faults = _faults(asked, files)
    draw = f"{asked.role}/{asked.scope}/{asked.number}"
    accuracy = asked.spec.reviewer_accuracy
    if faults and asked.spec.reviewer_catches is not None:
        accuracy = asked.spec.reviewer_catches
    if asked.draws.hits(accuracy, f"{draw}/accuracy"):
        issues = faults
    elif faults:
        issues = []
    else:
        issues = [_issue(asked.draws.rng(f"{draw}/issue").choice(files).name)]
    if asked.draws.hits(asked.spec.asks_for_tests, f"{draw}/tests"):
        issues.append("No test was added to the change.")
    return [_review(issues)]


def adjudicate(asked: RoleRequest) -> list[Action]:
    """Return the script of the adjudicator: the true cause of a failing test, or another one."""
    facts = asked.facts
    failing = facts.get("failing_existing_tests") or []
    changed = asked.reference.get_changes(facts)
    is_wrong = unlike(changed, asked.reference.files) or asked.reference.strays(changed)
    causes = ["code"]
    causes += ["existing_test"] if failing else []
    causes += ["new_test"] if _new_test_fails(facts) else []
    truth = "code" if is_wrong else causes[-1]
    others = [cause for cause in causes if cause != truth]
    draw = f"{asked.role}/{asked.scope}/{asked.number}"
    if others and not asked.draws.hits(asked.spec.adjudicator_accuracy, f"{draw}/accuracy"):
        truth = asked.draws.rng(f"{draw}/cause").choice(others)
    ruling = answer(
        "I have compared the change, the tests and the task.",
        reasons=["I have held the task's text against the evidence."],
        cause=truth,
        tests=failing if truth == "existing_test" else [],
    )
    return [ruling]


def _new_test_fails(facts: Facts) -> bool:
    path = (facts.get("new_test") or {}).get("path")
    lines = [line for check in facts.get("checks") or [] for line in check["failures"]]
    return path is not None and any(path in line for line in lines)


def _get_judged_files(asked: RoleRequest) -> list[FilePatch]:
    """Return the files of the patch that have to be correct by now."""
    if asked.role == "final_reviewer":
        return asked.reference.files
    return asked.reference.touching((asked.facts.get("step") or {}).get("targets") or [])


def _faults(asked: RoleRequest, files: list[FilePatch]) -> list[str]:
    changed = asked.reference.get_changes(asked.facts)
    return [
        *(_issue(path) for path in unlike(changed, files)),
        *(
            f"{file.name} has nothing to do with the task"
            for file in asked.reference.strays(changed)
        ),
    ]


def _issue(path: str) -> str:
    return f"{path}: this is not what the task asks for"


def _review(issues: list[str]) -> Action:
    return answer(
        "I have compared the diff with the task.",
        reasons=issues or ["The diff does what the task asks for, and nothing else."],
        issues=issues,
        verdict="revise" if issues else "accept",
    )
