"""Where commands run: a private repository and a shell, in a container or on the host.

`protocol` says what an arm can rely on, `container` and `host` provide it, `shell` speaks
to the small bash loop in `command_server.sh` that runs the commands of both, and
`repository` asks git for trees and patches by `work_tree.sh`. `janitor` removes what dead
programs left, as `ownership` tells whose it is.
"""

from agent.workspaces.container import DockerWorkspace, Limits, docker_available
from agent.workspaces.host import HostWorkspace
from agent.workspaces.protocol import Change, Checkpoint, CommandResult, Environment, Workspace

__all__ = [
    "Change",
    "Checkpoint",
    "CommandResult",
    "DockerWorkspace",
    "Environment",
    "HostWorkspace",
    "Limits",
    "Workspace",
    "docker_available",
]
