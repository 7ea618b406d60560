"""Tools that run a command in a shell, by the names that agents give them."""

from collections.abc import Mapping
from typing import Any

SHELLS = frozenset(
    {
        "bash",
        "bash_command",
        "exec_command",
        "execute_bash",
        "execute_command",
        "local_shell",
        "run_command",
        "run_shell_command",
        "run_terminal_cmd",
        "shell",
        "terminal",
    }
)
"""Names of tools that run a command, in lower case."""

_COMMANDS = ("command", "cmd", "keystrokes")
"""Names of the argument that holds the command."""


def command_of(name: str, arguments: Mapping[str, Any]) -> str | None:
    """Return the command that a tool runs; None if it runs none."""
    if name.lower() not in SHELLS:
        return None
    given = next((arguments[each] for each in _COMMANDS if each in arguments), None)
    if isinstance(given, list) and given and all(isinstance(word, str) for word in given):
        return str(given[-1]) if given[1:2] in (["-c"], ["-lc"]) else " ".join(given)
    return given if isinstance(given, str) else None
