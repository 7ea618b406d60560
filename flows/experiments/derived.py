"""Arms that are derived from others: the parts of their bases, and the limits of a change."""

from collections.abc import Mapping
from typing import Any

_KINDS: Mapping[str, str | None] = {"preset": "lean", "provider": None}
"""Names that tell kinds of options and models apart, with their defaults."""

_OF_THE_EXPERIMENT = ("dataset", "split", "environment", "network", "seed")


def derived_arms(arms: object) -> object:
    """Return the arms of a declaration, each derived one with the parts of its base.

    Anything that is no list of mappings is left to the validation that follows.

    Raises:
        ValueError: a base does not exist, has another agent, or derives from its own descendant.
    """
    if not isinstance(arms, list):
        return arms
    named = {arm["name"]: arm for arm in arms if isinstance(arm, dict) and "name" in arm}
    return [_whole(arm, named, ()) if isinstance(arm, dict) else arm for arm in arms]


def merged(known: Mapping[str, Any], changed: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with changed ones in place of those of the same names, at any depth.

    A mapping of another kind, such as another preset, replaces the known one.
    """
    made = dict(known)
    for name, value in changed.items():
        inner = made.get(name)
        if isinstance(inner, dict) and isinstance(value, dict) and _is_same_kind(inner, value):
            made[name] = merged(inner, value)
        else:
            made[name] = value
    return made


def _whole(arm: dict[str, Any], named: Mapping[str, Any], behind: tuple[str, ...]) -> Any:
    """Return an arm with the parts of its base. `behind` are the arms that derive from it."""
    base_name, name = arm.get("from"), arm.get("name")
    if base_name is None:
        return arm
    if name in behind:
        raise ValueError(f"arms derive from each other: {' from '.join((*behind, str(name)))}")
    if base_name not in named:
        raise ValueError(f"arm {name!r} derives from {base_name!r}, no arm of this experiment")
    for field in _OF_THE_EXPERIMENT:
        if field in arm:
            raise ValueError(
                f"arm {name!r} derives from {base_name!r}: it has the {field} of the experiment"
            )
    base = _whole(named[base_name], named, (*behind, str(name)))
    agent = arm.get("agent", base.get("agent"))
    if agent != base.get("agent"):
        raise ValueError(
            f"arm {name!r} derives from {base_name!r}, whose agent is {base.get('agent')}: it "
            f"cannot be {agent}"
        )
    own, options = base.get("options") or {}, arm.get("options") or {}
    is_known = isinstance(own, dict) and isinstance(options, dict)
    return {
        **arm,
        "agent": agent,
        "model": arm.get("model") or base.get("model"),
        "options": merged(own, options) if is_known else options,
    }


def _is_same_kind(known: Mapping[str, Any], changed: Mapping[str, Any]) -> bool:
    return all(
        known.get(kind, default) == changed[kind]
        for kind, default in _KINDS.items()
        if kind in changed
    )
