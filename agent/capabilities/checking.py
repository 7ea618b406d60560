"""The check of a declaration of capabilities, before anything runs."""

from collections.abc import Collection, Sequence

from agent.capabilities.base import Capability
from agent.capabilities.declared import Delegation
from agent.capabilities.registry import load
from agent.errors import InvalidSpec

FIRST = "loop"
"""The role of the first agent. Subagents have the names of their kinds."""


def checked(
    capabilities: Sequence[str], delegation: Delegation, roles: Collection[str]
) -> tuple[Capability, ...]:
    """Return the capabilities of the first agent.

    Raises:
        InvalidSpec: a capability is unknown, or a kind or a role does not fit.
    """
    unknown = sorted(set(roles) - {FIRST, *delegation.kinds})
    if unknown:
        raise InvalidSpec(
            f"no kind of subagent is declared for role {', '.join(unknown)}: the roles are {FIRST} "
            f"and {', '.join(delegation.kinds) or 'no other'}"
        )
    if FIRST in delegation.kinds:
        raise InvalidSpec(
            f"a kind of subagent cannot be named {FIRST}, the role of the first agent: rename it"
        )
    if "subagents" in capabilities and not delegation.kinds:
        raise InvalidSpec("capability subagents needs a kind: declare one in subagents.kinds")
    for name, kind in delegation.kinds.items():
        _check_kind(name, load(kind.capabilities), writes=kind.writes)
    return load(capabilities)


def _check_kind(name: str, capabilities: Sequence[Capability], *, writes: bool) -> None:
    changing = [tool.name for each in capabilities for tool in each.tools if tool.changes_files]
    if changing and not writes:
        raise InvalidSpec(
            f"subagents of kind {name} must not write, but have {', '.join(changing)}: leave "
            "these capabilities out (look reads files), or say writes: true"
        )
