"""The tool that runs a shell command."""

from pydantic import Field

from agent.tools.results import ToolResult
from agent.tools.tool import Arguments, Tool, ToolSettings, Value
from agent.workspaces import Workspace


class RunCommand(Arguments):
    """Run a bash command in the repository's root. Nothing goes on running after it, and
    standard input is closed."""

    command: str = Field(min_length=1)


async def run_command(
    workspace: Workspace, settings: ToolSettings, asked: RunCommand
) -> ToolResult:
    """Run the command. Return its output and its exit status."""
    timeout_s = settings.command_timeout_s
    done = await workspace.run(asked.command, timeout_s=timeout_s)
    output = done.output
    if done.timed_out:
        output += f"\n[the command took longer than {timeout_s:.0f} s and was ended]"
    return ToolResult(
        output, ok=done.exit_code == 0, exit_code=done.exit_code, timed_out=done.timed_out
    )


_COMMAND = Value(
    "dict[str, Any]",
    lambda result: {
        "output": result.output,
        "exit_code": result.exit_code,
        "timed_out": result.timed_out,
    },
)

COMMANDS = (Tool("run_command", RunCommand, run_command, changes_files=True, value=_COMMAND),)
