"""Tools and conversations by role."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from agent.arms.durable.options import Role
from agent.arms.durable.state import Anchor, Evidence
from agent.cells.notebook import Notebook
from agent.cells.offering import PROMPT
from agent.cells.offering import helpers as cell_helpers
from agent.cells.running import Kernel
from agent.conversation.conversation import Conversation, prompt_beside
from agent.conversation.exchanges import Answer, ConversationLimits, Helper, ToolUse
from agent.conversation.person import Person
from agent.limits import Programs
from agent.ptc.tool import ProgramTool
from agent.session.session import Session
from agent.tools import Protection, Toolbox

A = TypeVar("A", bound=Answer)

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
which the gatherer implements: see `agent.arms.durable.implementation`.
"""

_CHANGING: tuple[Role, ...] = ("solver", "implementer")


def conversation(
    role: Role,
    state: Evidence,
    session: Session,
    prompt: str,
    facts: Mapping[str, Any],
    answer: type[A],
    limits: ConversationLimits,
    helpers: Sequence[Helper] = (),
    on_use: Callable[[ToolUse], None] = lambda use: None,
    person: Person | None = None,
) -> Conversation[A]:
    """Open the conversation of a role with its tools and the additional tools of the profile.

    Roles that change the code get a notebook. Programs are for all roles and over all tools. The
    other parameters are the same as in `Conversation`.
    """
    # A solver can correct its own test.
    anchor = None if role == "solver" else state.reproduction.anchor
    is_free = state.task.for_reviewers
    protection = protecting(anchor, new_tests=role in ("anchor", "solver"), is_on=not is_free)
    tools = Toolbox(TOOLS[role], settings=state.tools, protection=protection)
    if state.profile.cells and role in _CHANGING:
        prompt = f"{prompt}\n{PROMPT}"
        notebook = Notebook(Kernel(state.tools, protection))
        helpers = [*helpers, *cell_helpers(notebook)]
    if state.profile.ptc:
        programs = ProgramTool(tools, helpers, Programs())
        prompt = f"{prompt.rstrip()}\n\n{programs.prompt}"
        helpers = [*helpers, programs.helper]
    return Conversation(
        session, role, prompt, facts, answer, limits, tools, helpers, on_use, person
    )


async def ask(
    role: Role,
    state: Evidence,
    session: Session,
    prompt: str,
    facts: Mapping[str, Any],
    answer: type[A],
    limits: ConversationLimits | None = None,
    *,
    more: str = "",
    person: Person | None = None,
) -> A | None:
    """Let a role answer once, with its tools if it has any. Return None without a valid answer.

    `prompt` is the name of a prompt, to which `more` is appended.
    """
    text = f"{prompt_beside(__file__, prompt, for_reviewers=state.task.for_reviewers)}{more}"
    limits = limits or state.limits()
    if TOOLS[role]:
        talk = conversation(role, state, session, text, facts, answer, limits, person=person)
    else:
        talk = Conversation(session, role, text, facts, answer, limits)
    return (await talk.until_answer()).answer


def network(session: Session) -> str:
    """Return the fact about the network of commands."""
    return "commands can reach other machines" if session.workspaces.network else "none"


def protecting(anchor: Anchor | None, *, new_tests: bool = False, is_on: bool = True) -> Protection:
    """Return the protection of the anchor test if there is one, and of all tests if `is_on`."""
    allowed = {anchor.path: anchor.content.encode()} if anchor else {}
    return Protection(allowed, new_tests=new_tests, is_on=is_on)
