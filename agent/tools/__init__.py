"""What an agent's model can do: tools over a workspace, confined to it and unable to touch tests.

`toolbox` offers the tools of a role and uses them; `reading`, `editing`, `testing` and
`commands` are the tools; `confinement` keeps their paths inside the repository and
`protection` undoes changes to tests; `rendering` makes a prompt's text of a `ToolResult`, and
`artifacts` keeps what is too long for one.
"""

from agent.tools.protection import Protection
from agent.tools.rendering import render
from agent.tools.results import TestRun, ToolResult
from agent.tools.testing import run_paths
from agent.tools.tool import ToolSettings
from agent.tools.toolbox import Toolbox

__all__ = [
    "Protection",
    "TestRun",
    "ToolResult",
    "ToolSettings",
    "Toolbox",
    "render",
    "run_paths",
]
