"""Roles and their scripts: the roles of the durable arm that ask, find, plan, describe and judge.

The answers are the JSON of the classes in `agent/arms/durable/answers.py`. Reviewers know the
truth, and state it as often as the specification says.
"""

import re
from collections.abc import Callable
from typing import Any

from agent.errors import ModelError
from agent.models.patches import FilePatch
from agent.models.simulated import anchor, implementer, loop, solver
from agent.models.simulated.conversation import Action, Reply, RoleRequest, answer
from agent.models.simulated.reference import Facts, Reference, item, unlike

_FEATURE = re.compile(
    r"\b(feature|support|add|allow|implement|miss|would be nice)\b", re.IGNORECASE
)
_LINES_AROUND = 10

_CURIOSITY = 0.3
"""Probability that the planner asks about the code first, if it has not seen any of it."""

_FAILED = ("revise", "replan", "blocked")
"""Status of a step that must be repeated."""


def next_reply(request: RoleRequest) -> Reply:
    """Return the next reply of the role in a conversation.

    Raises:
        ModelError: the role is unknown.
    """
    if request.role == "solver":
        return solver.next_reply(request)
    if loop.is_agent(request):
        return loop.next_reply(request)
    script = _SCRIPTS.get(request.role)
    if request.facts.get("stage") == request.role:  # only stages have such a fact
        script = loop.write_stage
    if script is None:
        message = f"the simulated model knows no role {request.role!r}"
        raise ModelError(message, retryable=False)
    replies = request.in_replies(script(request), f"{request.role}/{request.scope}")
    return request.next_of(replies)


def _contract(request: RoleRequest) -> dict[str, Any]:
    statement = str(request.facts.get("task") or request.reference.task.statement)
    lines = [line.strip("#* \t\r") for line in statement.splitlines() if line.strip()]
    goal = lines[0] if lines else "Do what the task says."
    return {
        "kind": "feature" if _FEATURE.search(" ".join(lines[:3])) else "bugfix",
        "goal": goal,
        "acceptance_criteria": [f"This holds: {goal}", "The existing tests still pass."],
    }


def _gather(request: RoleRequest) -> list[Action]:
    files = [file for file in request.reference.files if file.old_path]
    references = [
        {
            "path": file.old_path,
            "start": max(1, hunk.old_start - _LINES_AROUND),
            "end": max(1, hunk.old_start + len(hunk.old_lines) + _LINES_AROUND),
            "why": "this has to change",
        }
        for file in files
        for hunk in file.hunks
    ]
    looks = [Action("I look at it.", "read", {"path": file.old_path}) for file in files[:1]]
    return [*looks, answer("These lines matter.", references=references)]


def _scout(request: RoleRequest) -> list[Action]:
    reference = request.reference
    names = ", ".join(file.name for file in reference.files)
    step = {
        "title": f"Change {names}",
        "instructions": f"Change {names} so that it does what the task says.",
        "targets": sorted(reference.paths),
    }
    plan = answer(
        "I know how to do it.",
        contract=_contract(request),
        cause=f"What the task describes comes from {names}.",
        approach="Begin again, and follow the text of the task closely.",
        test_idea=f"Assert that {names} is what the task asks for.",
        related_tests=reference.find_related(request.facts.get("test_files") or []),
        steps=[step],
    )
    return [*implementer.reads(reference.files), plan]


def _write_brief(request: RoleRequest) -> list[Action]:
    reference, test_files = request.reference, request.facts.get("test_files") or []
    # The file that the anchor test checks comes first, so that the test soon shows good work.
    check = anchor.choose_check(reference, request.draws)
    first = check.path if check else ""
    parts = sorted(reference.parts, key=lambda part: all(file.name != first for file in part))
    names = ", ".join(file.name for part in parts for file in part)
    brief = answer(
        "I know where this happens.",
        summary=f"What the task describes comes from {names}.",
        anchor_path=anchor.place(reference, test_files),
        anchor_idea=f"Assert that {first or names} is what the task asks for.",
        round_trip=False,
        regression_tests=reference.find_related(test_files),
        backlog=[item(part) for part in parts],
    )
    return [brief]


def _plan(request: RoleRequest) -> list[Action]:
    """Return the script of one turn: a look at the code if there was none, then the answer."""
    facts, reference = request.facts, request.reference
    backlog = facts.get("backlog") or []
    if not backlog and not facts.get("completed_steps") and not facts.get("last_step"):
        backlog = [item(part) for part in reference.parts]
    files, rest = _next_files(reference, facts, backlog)
    turn: dict[str, Any] = {
        "facts": [],
        "context_needed": [],
        "next_step": None,
        "backlog": [],
        "done": False,
    }
    if not files:
        return [answer("Nothing is left to be done.", **{**turn, "done": True})]
    names = ", ".join(file.name for file in files)
    draw = f"planner/{request.scope}/{request.number}/curiosity"
    if not facts.get("context") and request.draws.hits(_CURIOSITY, draw):
        question = f"What does {names} look like, and who uses it?"
        asking = {**turn, "context_needed": [question], "backlog": backlog}
        return [answer("I want to see more.", **asking)]
    turn["facts"] = [f"{names} has to change."]
    turn["next_step"] = {
        "title": item(files),
        "instructions": f"Change {names} so that it does what the task says.",
        "targets": [path for file in files for path in file.paths],
        "tests": facts.get("regression_tests") or [],
    }
    turn["backlog"] = [
        line
        for line in rest
        if not (mentions := reference.find_named(line))
        or any(file not in files for file in mentions)
    ]
    path = files[0].old_path
    looks = [] if facts.get("context") or path is None else [path]
    return [
        *(Action(f"I look at {path}.", "read", {"path": path}) for path in looks),
        answer(f"Next is {names}.", **turn),
    ]


def _next_files(
    reference: Reference, facts: Facts, backlog: list[str]
) -> tuple[list[FilePatch], list[str]]:
    """Return the files to change now, none if nothing remains, and the rest of the backlog."""
    wrong = reference.files
    if facts.get("diff") is not None:
        changed = reference.get_changes(facts)
        paths = unlike(changed, reference.files)
        wrong = reference.touching(paths) if paths or reference.strays(changed) else []
    last = facts.get("last_step") or {}
    if last.get("status") in _FAILED or last.get("review_issues"):
        again = reference.find_named(last.get("title") or "")
        if again or not backlog:
            return again or wrong, backlog
    for position, line in enumerate(backlog, 1):
        # A line that names no file, such as one about a failing test, is about the wrong files.
        if files := reference.find_named(line) or wrong:
            return files, backlog[position:]
    return [], []


def _review(request: RoleRequest) -> list[Action]:
    reference, facts = request.reference, request.facts
    files = reference.files
    if request.role != "final_reviewer":
        files = reference.touching((facts.get("step") or {}).get("targets") or [])
    changed = reference.get_changes(facts)
    faults = [_issue(path) for path in unlike(changed, files)]
    faults += [f"{file.name} has nothing to do with the task" for file in reference.strays(changed)]
    draw = f"{request.role}/{request.scope}/{request.number}"
    accuracy = request.spec.reviewer_accuracy
    if faults and request.spec.reviewer_catches is not None:
        accuracy = request.spec.reviewer_catches
    if request.draws.hits(accuracy, f"{draw}/accuracy"):
        issues = faults
    elif faults:
        issues = []
    else:
        issues = [_issue(request.draws.rng(f"{draw}/issue").choice(files).name)]
    if request.draws.hits(request.spec.asks_for_tests, f"{draw}/tests"):
        issues.append("No test was added to the change.")
    review = answer(
        "I have compared the diff with the task.",
        reasons=issues or ["The diff does what the task asks for, and nothing else."],
        issues=issues,
        verdict="revise" if issues else "accept",
    )
    return [review]


def _issue(path: str) -> str:
    return f"{path}: this is not what the task asks for"


def _adjudicate(request: RoleRequest) -> list[Action]:
    """Return a ruling: the true cause of a failing test, or another one."""
    facts, reference = request.facts, request.reference
    failing = facts.get("failing_existing_tests") or []
    new_test = (facts.get("new_test") or {}).get("path")
    failures = [line for check in facts.get("checks") or [] for line in check["failures"]]
    causes = ["code"]
    causes += ["existing_test"] if failing else []
    if new_test is not None and any(new_test in line for line in failures):
        causes.append("new_test")
    changed = reference.get_changes(facts)
    is_wrong = unlike(changed, reference.files) or reference.strays(changed)
    cause = "code" if is_wrong else causes[-1]
    others = [other for other in causes if other != cause]
    draw = f"{request.role}/{request.scope}/{request.number}"
    if others and not request.draws.hits(request.spec.adjudicator_accuracy, f"{draw}/accuracy"):
        cause = request.draws.rng(f"{draw}/cause").choice(others)
    ruling = answer(
        "I have compared the change, the tests and the task.",
        reasons=["I have held the task's text against the evidence."],
        cause=cause,
        tests=failing if cause == "existing_test" else [],
    )
    return [ruling]


_SCRIPTS: dict[str, Callable[[RoleRequest], list[Action]]] = {
    "contract": lambda request: [answer("The task is clear.", **_contract(request))],
    "gatherer": _gather,
    "brief": _write_brief,
    "anchor": anchor.write,
    "planner": _plan,
    "implementer": implementer.write,
    "scout": _scout,
    "adjudicator": _adjudicate,
    "step_reviewer": _review,
    "final_reviewer": _review,
}
"""Scripts of the roles whose actions do not depend on the results of their calls."""
