"""Helper functions that run commands in a workspace."""

from agent.workspaces import CommandResult, Workspace


async def run(workspace: Workspace, command: str, timeout_s: float = 20) -> CommandResult:
    """Run a command and return its result."""
    return await workspace.run(command, timeout_s=timeout_s)


async def sh(workspace: Workspace, command: str) -> str:
    """Run a command and return its output."""
    return (await run(workspace, command, 30)).output
