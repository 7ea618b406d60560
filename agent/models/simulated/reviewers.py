"""The reviewers of a step and of the whole change. They know the truth, and mostly state it."""

from agent.models.patches import FilePatch
from agent.models.simulated.conversation import Action, Conversation
from agent.models.simulated.draws import Draws
from agent.models.simulated.reference import Reference, unlike


def write(
    reference: Reference, conversation: Conversation, draws: Draws, *, accuracy: float
) -> list[Action]:
    """Return the script of either role, which is one answer."""
    files = _judged(reference, conversation)
    faults = _faults(reference, conversation, files)
    draw = f"{conversation.role}/{conversation.scope}/{conversation.number}"
    if draws.hits(accuracy, f"{draw}/accuracy"):
        issues = faults
    elif faults:
        issues = []
    else:
        issues = [_issue(draws.rng(f"{draw}/issue").choice(files).name)]
    return [_review(issues)]


def _judged(reference: Reference, conversation: Conversation) -> list[FilePatch]:
    """Return the files of the patch that have to be correct by now."""
    if conversation.role == "final_reviewer":
        return reference.files
    return reference.touching((conversation.facts.get("step") or {}).get("targets") or [])


def _faults(reference: Reference, conversation: Conversation, files: list[FilePatch]) -> list[str]:
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
