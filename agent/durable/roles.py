"""Which tools each role has."""

from agent.durable.profile import Role
from agent.durable.state import State
from agent.tools import Protection, Toolbox

_LOOKING = ("read", "search", "find_definition", "find_callers", "find_callees")

TOOLS: dict[Role, tuple[str, ...]] = {
    "contract": (),
    "gatherer": _LOOKING,
    "brief": (),
    "anchor": (*_LOOKING, "write_new", "run_tests"),
    "planner": _LOOKING,
    "implementer": (*_LOOKING, "write", "apply_patch", "edit", "run_tests", "run_command"),
    "step_reviewer": (),
    "final_reviewer": (),
}
"""Each role's own tools; whoever judges has none, and judges by what machines found."""


def toolbox(role: Role, state: State) -> Toolbox:
    """The tools of a role, with the tests protected."""
    anchor = state.reproduction.anchor
    allowed = {anchor.path: anchor.content.encode()} if anchor else {}
    protection = Protection(allowed, new_tests=role == "anchor")
    return Toolbox(TOOLS[role], settings=state.tools, protection=protection)
