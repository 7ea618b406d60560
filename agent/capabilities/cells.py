"""A notebook of Python cells that remembers what depends on what."""

from functools import partial
from typing import Any

from agent.capabilities.base import Agent, Capability, Native
from agent.cells.notebook import Notebook
from agent.cells.offering import PROMPT, TOOLS, CellTool
from agent.cells.running import Kernel
from agent.session.session import Session
from agent.tools.results import ToolResult


async def _use(tool: CellTool, agent: Agent, session: Session, asked: Any) -> ToolResult:
    if "cells" not in agent.memory:
        kernel = Kernel(agent.crew.tools, agent.crew.protection)
        agent.memory["cells"] = Notebook(kernel, keeps_files=agent.writes)
    return await tool(agent.memory["cells"], session, asked)


CELLS = Capability(
    "cells",
    native=tuple(
        # None of them overtakes another of the same reply, as tools that only read would.
        Native(tool.name, tool.arguments, partial(_use, tool), changes_files=True)
        for tool in TOOLS
    ),
    prompt=PROMPT,
)
