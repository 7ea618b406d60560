"""Reading, searching and changing the files of the repository."""

from agent.capabilities.base import Capability
from agent.tools.editing import EDITING
from agent.tools.reading import READING

_LOOKING = ("read", "search")
_CHANGING = ("write", "edit", "apply_patch")

FILES = Capability(
    "files",
    tools=(
        *(tool for tool in READING if tool.name in _LOOKING),
        *(tool for tool in EDITING if tool.name in _CHANGING),
    ),
    prompt="Create and change files with the editing tools.",
)

LOOK = Capability("look", tools=tuple(tool for tool in READING if tool.name in _LOOKING))
"""The files for agents that must not change any."""
