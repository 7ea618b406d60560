"""A capability of your own: a tool that counts the lines of Python in the repository."""

from agent.capabilities import Arguments, Capability, Refused, Tool, ToolResult, ToolSettings
from agent.workspaces import Workspace


class CountLines(Arguments):
    """Count the lines of Python files in a folder."""

    folder: str = "."


async def count(workspace: Workspace, settings: ToolSettings, asked: CountLines) -> ToolResult:
    """Return the number of lines, or tell the model what is wrong."""
    done = await workspace.run(f"git ls-files -- '{asked.folder}/*.py' | xargs cat", timeout_s=60)
    if not done.output:
        raise Refused(f"there is no Python in {asked.folder}; name another folder")
    return ToolResult(str(len(done.output.splitlines())))


LINES = Capability("lines", tools=(Tool("count_lines", CountLines, count),), prompt="Count first.")
