"""The script that runs a program beside its gateway."""

import shlex
from pathlib import Path

from agent.arms.command.recipe import Recipe
from agent.errors import NoProgram
from agent.gateway import serving
from agent.gateway.serving import Address

SOCKET_FOLDER = "/run/durabench"
"""Folder of the socket in a container."""

AGENT_FOLDER = "/opt/agent"
"""Folder of the installed program in a container."""

NO_RELAY = 253
"""Exit code of the script if the relay does not start."""

_PORT = 8901
_LONGEST_VARIABLE = 128 * 1024
"""Bytes of one variable or argument, name and end included, that Linux passes to a program."""
_RELAY = (Path(serving.__file__).with_name("relay.pl")).read_text(encoding="utf-8")

_WRITE_TASK = """\
export DURABENCH_TASK_FILE="${{TMPDIR:-/tmp}}/durabench-task.md"
printf %s {task} >"$DURABENCH_TASK_FILE" || exit
"""

_START_RELAY = """\
command -v perl >/dev/null || {{ echo 'there is no perl, which the relay needs'; exit {missing}; }}
perl -e {relay} {socket} {port} &
for _ in {{1..200}}; do (: </dev/tcp/127.0.0.1/{port}) 2>/dev/null && break; sleep 0.02; done
(: </dev/tcp/127.0.0.1/{port}) 2>/dev/null || {{ echo 'the relay did not start'; exit {missing}; }}
"""


def script(
    recipe: Recipe, task: str, model: str, address: Address, key: str, agent_folder: str
) -> str:
    """Return the script that solves a task.

    Raises:
        NoProgram: the task is longer than a variable can be, and the recipe reads no file.
    """
    port = _PORT if address.socket else address.port
    given = {
        **_as_variable(recipe, task),
        "DURABENCH_URL": f"http://127.0.0.1:{port}",
        "DURABENCH_KEY": key,
        # Clients choose their features by the name that the vendor uses.
        "DURABENCH_MODEL": model.rpartition("/")[2],
        "DURABENCH_AGENT": agent_folder,
    }
    relay = ""
    if address.socket:
        path = f"{SOCKET_FOLDER}/{address.socket.name}"
        relay = _START_RELAY.format(
            missing=NO_RELAY, relay=shlex.quote(_RELAY), socket=path, port=_PORT
        )
    written = _WRITE_TASK.format(task=shlex.quote(task))
    return "\n".join([_exports(given), written, relay, environment(recipe), recipe.run])


def _as_variable(recipe: Recipe, task: str) -> dict[str, str]:
    """Return the variable with the task, or none for a recipe that reads it from the file."""
    bytes_of_task = len(task.encode("utf-8", "replace"))
    if len("DURABENCH_TASK=") + bytes_of_task < _LONGEST_VARIABLE:
        return {"DURABENCH_TASK": task}
    if any("DURABENCH_TASK_FILE" in text for text in (recipe.run, *recipe.environment.values())):
        return {}
    raise NoProgram(
        f"recipe {recipe.name}: the issue has {bytes_of_task} bytes, more than a variable can "
        "hold; let the program read the file `$DURABENCH_TASK_FILE` instead of `$DURABENCH_TASK`"
    )


def probe(recipe: Recipe, agent_folder: str) -> str:
    """Return the script that prints the release of the program."""
    given = {"DURABENCH_AGENT": agent_folder, "DURABENCH_URL": "", "DURABENCH_KEY": ""}
    return "\n".join([_exports(given), environment(recipe), recipe.probe or ":"])


def environment(recipe: Recipe) -> str:
    """Return the exports of a recipe's variables. The shell expands their values."""
    return "\n".join(f'export {name}="{value}"' for name, value in recipe.environment.items())


def _exports(given: dict[str, str]) -> str:
    return "\n".join(f"export {name}={shlex.quote(value)}" for name, value in given.items())
