"""Workspaces: a private repository and a shell, in a container or on the host.

`repository` has what an arm can rely on: `Workspace`, which runs git through `work_tree.sh` to get
trees and patches. `container` and `host` open workspaces. `shell` is the client of the small bash
loop in `command_server.sh`, which runs the commands of both. `files` reads and writes files through
it, by `files.sh`. `limits` has the limits of a container. `janitor` removes leftovers of dead
programs, which `ownership` identifies.
"""

from agent.workspaces.container import DockerWorkspace
from agent.workspaces.docker_daemon import docker_available
from agent.workspaces.host import HostWorkspace
from agent.workspaces.limits import ResourceLimits
from agent.workspaces.repository import Workspace
from agent.workspaces.workspace_values import (
    Change,
    Checkpoint,
    CommandResult,
    Environment,
    Found,
    Mount,
)
