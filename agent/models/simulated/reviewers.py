"""The roles that judge a change: two reviewers and the adjudicator of a failing test.

They know the truth, and state it as often as the specification says.
"""

from agent.models.patches import FilePatch
from agent.models.simulated.conversation import Action, RoleRequest
from agent.models.simulated.reference import Draws, Facts, Reference, unlike
from agent.models.spec import SimulatedSpec


def review(
    reference: Reference, conversation: RoleRequest, draws: Draws, spec: SimulatedSpec
) -> list[Action]:
    """Return the script of a reviewer, which is one answer."""
    files = _judged(reference, conversation)
    faults = _faults(reference, conversation, files)
    draw = f"{conversation.role}/{conversation.scope}/{conversation.number}"
    accuracy = spec.reviewer_accuracy
    if faults and spec.reviewer_catches is not None:
        accuracy = spec.reviewer_catches
    if draws.hits(accuracy, f"{draw}/accuracy"):
        issues = faults
    elif faults:
        issues = []
    else:
        issues = [_issue(draws.rng(f"{draw}/issue").choice(files).name)]
    if draws.hits(spec.asks_for_tests, f"{draw}/tests"):
        issues.append("No test was added to the change.")
    return [_review(issues)]


def adjudicate(
    reference: Reference, conversation: RoleRequest, draws: Draws, spec: SimulatedSpec
) -> list[Action]:
    """Return the script of the adjudicator: the true cause of a failing test, or another one."""
    facts = conversation.facts
    failing = facts.get("failing_existing_tests") or []
    changed = reference.changed(facts)
    is_wrong = unlike(changed, reference.files) or reference.strays(changed)
    causes = ["code"]
    causes += ["existing_test"] if failing else []
    causes += ["new_test"] if _new_test_fails(facts) else []
    truth = "code" if is_wrong else causes[-1]
    others = [cause for cause in causes if cause != truth]
    draw = f"{conversation.role}/{conversation.scope}/{conversation.number}"
    if others and not draws.hits(spec.adjudicator_accuracy, f"{draw}/accuracy"):
        truth = draws.rng(f"{draw}/cause").choice(others)
    arguments = {
        "reasons": ["I have held the task's text against the evidence."],
        "cause": truth,
        "tests": failing if truth == "existing_test" else [],
    }
    return [Action("I have compared the change, the tests and the task.", "answer", arguments)]


def _new_test_fails(facts: Facts) -> bool:
    path = (facts.get("new_test") or {}).get("path")
    lines = [line for check in facts.get("checks") or [] for line in check["failures"]]
    return path is not None and any(path in line for line in lines)


def _judged(reference: Reference, conversation: RoleRequest) -> list[FilePatch]:
    """Return the files of the patch that have to be correct by now."""
    if conversation.role == "final_reviewer":
        return reference.files
    return reference.touching((conversation.facts.get("step") or {}).get("targets") or [])


def _faults(reference: Reference, conversation: RoleRequest, files: list[FilePatch]) -> list[str]:
    changed = reference.changed(conversation.facts)
    return [
        *(_issue(path) for path in unlike(changed, files)),
        *(f"{file.name} has nothing to do with the task" for file in reference.strays(changed)),
    ]


def _issue(path: str) -> str:
    return f"{path}: this is not what the task asks for"


def _review(issues: list[str]) -> Action:
    arguments = {
        "reasons": issues or ["The diff does what the task asks for, and nothing else."],
        "issues": issues,
        "verdict": "revise" if issues else "accept",
    }
    return Action("I have compared the diff with the task.", "answer", arguments)
