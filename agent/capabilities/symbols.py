"""Definitions of names in the repository's Python code, and their uses."""

from agent.capabilities.base import Capability
from agent.tools.reading import READING

SYMBOLS = Capability("symbols", tools=tuple(t for t in READING if t.name.startswith("find_")))
