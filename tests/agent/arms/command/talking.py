"""Replies to a real program: one turn of commands after another, through its own shell tool."""

import json
from collections.abc import Sequence

from tests.servers.google import Gemini
from tests.servers.strict import Anthropic, Asked, Called, Chat, Dialect, Responses, Said

TOOLS = {
    **dict.fromkeys(("Bash", "bash", "shell_command", "run_shell_command"), "command"),
    "exec_command": "cmd",
    "run_commands": "commands",
}
"""Names of shell tools, and of their argument with the command."""

SERVERS: dict[str, tuple[type[Dialect], dict[str, object]]] = {
    "chat": (Chat, {"name": "openai/gpt-4o"}),
    "messages": (Anthropic, {"name": "anthropic/claude-sonnet-4-5"}),
    "responses": (Responses, {"name": "openai/gpt-4o", "api": "responses"}),
    "gemini": (Gemini, {"name": "gemini/gemini-2.5-flash"}),
}
"""A server of each dialect, and the model that is asked there."""


def says(asked: Asked, commands: Sequence[str | Sequence[str]]) -> Said:
    """Give one command, or some at the same time, after the other, and then end.

    They go to the program's own shell tool.
    """
    tool = next((name for name in asked.tools if name in TOOLS), None)
    if tool is None or asked.turns >= len(commands):
        return Said("Done.")
    turn = commands[asked.turns]
    calls = [
        Called(tool, _arguments(tool, command), f"call_{asked.turns}_{number}")
        for number, command in enumerate([turn] if isinstance(turn, str) else turn)
    ]
    return Said("I work.", tuple(calls))


def _arguments(tool: str, command: str) -> str:
    arguments: dict[str, object] = {TOOLS[tool]: command}
    if tool == "run_commands":
        arguments = {TOOLS[tool]: [command]}
    if tool != "exec_command":
        arguments["description"] = "Run a command."
    return json.dumps(arguments)
