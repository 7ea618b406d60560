"""Symbols of the states of cells."""

from reports.types import State

MARKS: dict[State, str] = {
    "resolved": "●",
    "unresolved": "○",
    "no_patch": "∅",
    "patch_failed": "✕",
    "timeout": "◷",
    "infrastructure": "⚠",
    "stopped": "$",
    "ungraded": "…",
    "missing": "·",
}
"""A symbol for every state, so that no state is marked by colour alone."""
