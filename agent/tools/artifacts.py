"""Outputs that are too long for a prompt, as files that commands can look into."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from agent.workspaces import Workspace

_TIMEOUT_S = 60.0


async def keep(
    workspace: Workspace, name: str, arguments: Mapping[str, Any] | str, output: str
) -> str:
    """Write an output into a file of the workspace, outside the repository; its absolute path,
    empty where it cannot be written.

    The same use of a tool gets the same file: what a model is told does not depend on how
    often an attempt was resumed. It is gone with the workspace; the journal keeps the output.
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
