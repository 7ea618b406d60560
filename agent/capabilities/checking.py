"""The check of a declaration of capabilities, before anything runs."""

from collections.abc import Collection, Sequence

from agent.capabilities.base import Capability
from agent.capabilities.declared import Delegation
from agent.capabilities.registry import load
from agent.errors import InvalidSpec


def checked(
    capabilities: Sequence[str], delegation: Delegation, roles: Collection[str]
) -> tuple[Capability, ...]:
    """Return the capabilities of the first agent.

    Raises:
        InvalidSpec: a capability is unknown, or a kind or a role does not fit.
    """
    unknown = sorted(set(roles) - {"loop", *delegation.kinds})
    if unknown:
        raise InvalidSpec(
            f"no kind of subagent is declared for role {', '.join(unknown)}: the roles are loop "
            f"and {', '.join(delegation.kinds) or 'no other'}"
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
            f"subagents of kind {name} must not write, but have {', '.join(changing)}: give them "
            "look in place of files, or say writes: true"
        )
