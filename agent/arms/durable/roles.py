"""Tools by role."""

from agent.arms.durable.profile import Role
from agent.arms.durable.state import Anchor, Evidence
from agent.session.session import Session
from agent.tools import Protection, Toolbox

_LOOKING = ("read", "search", "find_definition", "find_callers", "find_callees")

_WORKING = (*_LOOKING, "write", "apply_patch", "edit", "run_tests", "run_command")

TOOLS: dict[Role, tuple[str, ...]] = {
    "solver": _WORKING,
    "adjudicator": (),
    "scout": _LOOKING,
    "contract": (),
    "gatherer": _LOOKING,
    "brief": _LOOKING,
    "anchor": (*_LOOKING, "write_new", "run_tests"),
    "planner": _LOOKING,
    "implementer": _WORKING,
    "step_reviewer": (),
    "final_reviewer": (),
}
"""Each role's own tools.

Reviewers have no tools, because they judge test results. The implementer also has `gather_context`,
which the gatherer implements: see `agent.arms.durable.context`.
"""


def toolbox(role: Role, state: Evidence) -> Toolbox:
    """Return the tools of a role, with the tests protected. A solver may correct its own test."""
    anchor = None if role == "solver" else state.reproduction.anchor
    protection = protecting(anchor, new_tests=role in ("anchor", "solver"))
    return Toolbox(TOOLS[role], settings=state.tools, protection=protection)


def network(session: Session) -> str:
    """Return the fact about the network of commands."""
    return "commands can reach other machines" if session.network else "none"


def protecting(anchor: Anchor | None, *, new_tests: bool = False) -> Protection:
    """Return the protection of all tests, including the anchor test if there is one."""
    allowed = {anchor.path: anchor.content.encode()} if anchor else {}
    return Protection(allowed, new_tests=new_tests)
