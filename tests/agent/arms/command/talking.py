"""Replies to a real program: one command after another, through its own shell tool."""

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


def says(asked: Asked, commands: Sequence[str]) -> Said:
    """Give one command after the other to the program's own shell tool, and then end."""
    tool = next((name for name in asked.tools if name in TOOLS), None)
    if tool is None or asked.turns >= len(commands):
        return Said("Done.")
    command: str | list[str] = commands[asked.turns]
    arguments = {TOOLS[tool]: command, "description": "Run a command."}
    if tool == "run_commands":
        arguments = {TOOLS[tool]: [str(command)]}
    if tool == "exec_command":
        del arguments["description"]
    return Said("I work.", (Called(tool, json.dumps(arguments), f"call_{asked.turns}"),))
