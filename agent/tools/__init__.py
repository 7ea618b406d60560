"""The tools of an agent's model: confined to its workspace and unable to change tests.

`toolbox` offers the tools of a role and uses them, and stores outputs that are too long for a
prompt. `reading`, `editing` and `testing` are the tools. `protection` keeps their paths inside the
repository and reverts changes to tests. `rendering` turns a `ToolResult` into text.
"""

from agent.tools.protection import Protection
from agent.tools.rendering import render
from agent.tools.testing import run_paths
from agent.tools.tool import TestRun, ToolResult, ToolSettings
from agent.tools.toolbox import Toolbox
