"""Outputs that are too long for a prompt, stored as files for commands to read."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from agent.workspaces import Workspace

_TIMEOUT_S = 60.0


async def keep(
    workspace: Workspace, name: str, arguments: Mapping[str, Any] | str, output: str
) -> str:
    """Write an output to a file of the workspace, outside the repository.

    Return its absolute path, or '' if it cannot be written. The same use of a tool gets the same
    file, so that the model's input does not depend on how often an attempt was resumed. The file is
    removed with the workspace; the journal keeps the output.
    """
    use = json.dumps([name, arguments], sort_keys=True).encode()
    # A profile may print something first.
    told = await workspace.run('printf "\\n%s" "${TMPDIR:-/tmp}"', timeout_s=_TIMEOUT_S)
    folder = told.output.rpartition("\n")[2]
    path = f"{folder}/output-{hashlib.sha256(use).hexdigest()[:12]}.txt"
    try:
        await workspace.write(path, output.encode(errors="replace"))
    except OSError:
        return ""
    return path
