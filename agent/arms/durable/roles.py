"""Which tools each role has."""

from agent.arms.durable.profile import Role
from agent.arms.durable.state import Anchor, State
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
"""Each role's own tools; whoever judges has none, and judges by what machines found. The
implementer has `gather_context` too, which is the gatherer's work: `agent.arms.durable.context`."""


def toolbox(role: Role, state: State) -> Toolbox:
    """The tools of a role, with the tests protected."""
    protection = protecting(state.reproduction.anchor, new_tests=role == "anchor")
    return Toolbox(TOOLS[role], settings=state.tools, protection=protection)


def protecting(anchor: Anchor | None, *, new_tests: bool = False) -> Protection:
    """The protection of all tests, with the anchor test among them once there is one."""
    allowed = {anchor.path: anchor.content.encode()} if anchor else {}
    return Protection(allowed, new_tests=new_tests)
