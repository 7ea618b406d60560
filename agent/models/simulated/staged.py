"""The stages of the staged arm: explore, plan, build each subtask, and repair.

A subtask is a part of the reference patch, so a plan has as many as the patch has parts. A build is
the same draw as the change of an agent on the loop if the plan has one subtask. A repair is another
try at all files, correlated with the first.
"""

from typing import Any

from agent.models.patches import FilePatch
from agent.models.simulated import implementer
from agent.models.simulated.conversation import Action, Reply, RoleRequest, grouped
from agent.models.simulated.planner import item
from agent.models.simulated.reference import Draws, Reference, drawn, undoing_command
from agent.models.spec import SimulatedSpec

_MOST_SUBTASKS = 6


def is_stage(conversation: RoleRequest) -> bool:
    """Return True if a stage asks. No other role has a fact of this name."""
    return conversation.facts.get("stage") == conversation.role


def next_reply(
    reference: Reference, conversation: RoleRequest, draws: Draws, spec: SimulatedSpec
) -> Reply:
    """Return the next reply of a stage."""
    chance = spec.parallel_calls if conversation.native else 0.0
    actions = _script(reference, conversation, draws, spec)
    replies = grouped(actions, draws, chance, f"{conversation.role}/{conversation.scope}")
    return replies[min(len(conversation.results), len(replies) - 1)]


def _script(
    reference: Reference, conversation: RoleRequest, draws: Draws, spec: SimulatedSpec
) -> list[Action]:
    match conversation.role:
        case "explore":
            return [*_looks(reference, spec), _findings(reference)]
        case "plan":
            return [_plan(reference)]
        case "build":
            return _build(reference, conversation, draws, spec)
        case _:
            return _repair(reference, conversation, draws, spec)


def _looks(reference: Reference, spec: SimulatedSpec) -> list[Action]:
    reads = implementer.reads(reference.files)
    return [*reads, *(reads * spec.exploration)[: spec.exploration]]


def _findings(reference: Reference) -> Action:
    names = [file.name for file in reference.files]
    return _answer(
        "I know where this happens.",
        summary=f"What the task describes comes from {', '.join(names)}.",
        files=names,
        tests=[],
    )


def _plan(reference: Reference) -> Action:
    subtasks = [
        {"title": item(files), "instructions": f"{item(files)} so that it does what the task says."}
        for files in _parts(reference)
    ]
    return _answer("I know in which order.", subtasks=subtasks)


def _parts(reference: Reference) -> list[list[FilePatch]]:
    """Return the parts of the reference patch, the last ones as one if there are too many."""
    parts = reference.parts
    rest = [file for part in parts[_MOST_SUBTASKS - 1 :] for file in part]
    return [*parts[: _MOST_SUBTASKS - 1], *([rest] if rest else [])]


def _build(
    reference: Reference, conversation: RoleRequest, draws: Draws, spec: SimulatedSpec
) -> list[Action]:
    subtask = conversation.facts.get("subtask") or {}
    files = reference.named_in(str(subtask.get("title"))) or reference.files
    names = ",".join(file.name for file in files)
    draw = f"build/{names}"
    if draws.hits(spec.cheating, f"{draw}/cheating"):
        return [implementer.cheat([], draws, draw), _report()]
    patch = drawn(reference, files, draws, spec).patch
    return [
        *implementer.reads(files),
        Action("I know what to change.", "apply_patch", {"patch": patch}),
        _report(),
    ]


def _repair(
    reference: Reference, conversation: RoleRequest, draws: Draws, spec: SimulatedSpec
) -> list[Action]:
    """Take the whole change back, and try all of it again."""
    undo = undoing_command(str(conversation.facts.get("diff") or ""))
    takes_back = Action("That was wrong: I take it back.", "run_command", {"command": undo})
    patch = drawn(reference, reference.files, draws, spec, conversation.scope).patch
    change = Action("I know what to change.", "apply_patch", {"patch": patch})
    return [*([takes_back] if undo else []), change, _report()]


def _report() -> Action:
    return _answer("It is done.", summary="The code does what the task says.", status="done")


def _answer(thought: str, **fields: Any) -> Action:
    return Action(thought, "answer", fields)
