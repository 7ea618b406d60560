"""Commands in the repository's root."""

from agent.capabilities.base import Capability
from agent.tools.commands import COMMANDS

SHELL = Capability("shell", tools=COMMANDS)
