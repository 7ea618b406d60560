"""Tools by role."""

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
"""Each role's own tools.

Reviewers have no tools, because they judge test results. The implementer also has `gather_context`,
which the gatherer implements: see `agent.arms.durable.context`.
"""


def toolbox(role: Role, state: State) -> Toolbox:
    """Return the tools of a role, with the tests protected."""
    protection = protecting(state.reproduction.anchor, new_tests=role == "anchor")
    return Toolbox(TOOLS[role], settings=state.tools, protection=protection)


def protecting(anchor: Anchor | None, *, new_tests: bool = False) -> Protection:
    """Return the protection of all tests, including the anchor test if there is one."""
    allowed = {anchor.path: anchor.content.encode()} if anchor else {}
    return Protection(allowed, new_tests=new_tests)
