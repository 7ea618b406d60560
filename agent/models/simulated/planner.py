"""The rolling planner: one part of the reference patch after another."""

from collections.abc import Sequence
from typing import Any

from agent.models.patches import FilePatch
from agent.models.simulated.conversation import Action, RoleRequest
from agent.models.simulated.reference import Draws, Facts, Reference, unlike

# Probability that the planner asks about the code first, if it has not seen any of it.
_CURIOSITY = 0.3

# Status of a step that has to be repeated.
_FAILED = ("revise", "replan", "blocked")


def write(reference: Reference, conversation: RoleRequest, draws: Draws) -> list[Action]:
    """Return the script of one turn: a look at the code if none was given, then the answer."""
    facts = conversation.facts
    items = _items(reference, facts)
    files, rest = _next(reference, facts, items)
    if not files:
        return [_turn("Nothing is left to be done.", backlog=[], done=True)]
    names = ", ".join(file.name for file in files)
    draw = f"planner/{conversation.scope}/{conversation.number}/curiosity"
    if not facts.get("context") and draws.hits(_CURIOSITY, draw):
        question = f"What does {names} look like, and who uses it?"
        return [_turn("I want to see more.", backlog=items, context_needed=[question])]
    answer = _turn(
        f"Next is {names}.",
        facts=[f"{names} has to change."],
        next_step={
            "title": item(files),
            "instructions": f"Change {names} so that it does what the task says.",
            "targets": [path for file in files for path in file.paths],
            "tests": facts.get("regression_tests") or [],
        },
        backlog=[line for line in rest if not _is_about(reference, line, files)],
    )
    known = files[0].old_path
    if facts.get("context") or known is None:
        return [answer]
    return [Action(f"I look at {known}.", "read", {"path": known}), answer]


def item(files: list[FilePatch]) -> str:
    """Return a line of the backlog for the change of some files."""
    return f"Change {', '.join(file.name for file in files)}"


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
        again = reference.named_in(last.get("title") or "")
        if again or not items:
            return again or _wrong_ones(reference, facts), items
    for position, line in enumerate(items, 1):
        if files := reference.named_in(line) or _wrong_ones(reference, facts):
            return files, items[position:]
    return [], []


def _wrong_ones(reference: Reference, facts: Facts) -> list[FilePatch]:
    """Return the files for a backlog line that names none, such as that of a failing test.

    These are the files that the diff shows to be wrong, or all files if there is no diff.
    """
    if facts.get("diff") is None:
        return reference.files
    changed = reference.changed(facts)
    wrong = unlike(changed, reference.files)
    return reference.touching(wrong) if wrong or reference.strays(changed) else []


def _is_about(reference: Reference, text: str, files: list[FilePatch]) -> bool:
    named = reference.named_in(text)
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
    arguments = {
        "facts": list(facts),
        "context_needed": list(context_needed),
        "next_step": next_step,
        "backlog": backlog,
        "done": done,
    }
    return Action(thought, "answer", arguments)
