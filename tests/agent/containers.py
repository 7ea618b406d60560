"""Images and containers for tests of workspaces."""

import asyncio
import copy
import io
import secrets
import tarfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from docker import DockerClient

from agent.workspaces import DockerWorkspace, ResourceLimits, container, docker_daemon, ownership

BASE_IMAGE = "durabench/base:bookworm"


@contextmanager
def image_of(script: str, client: DockerClient) -> Iterator[str]:
    """Build an image with the files that the script makes in /testbed, and remove it at the end."""
    tag = f"durabench-test/{secrets.token_hex(4)}:repo"
    dockerfile = f"FROM {BASE_IMAGE}\nWORKDIR /testbed\nCOPY make.sh /\nRUN bash /make.sh\n"
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as archive:
        for name, text in (("Dockerfile", dockerfile), ("make.sh", script)):
            entry = tarfile.TarInfo(name)
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    context.seek(0)
    client.images.build(fileobj=context, custom_context=True, tag=tag, rm=True, network_mode="none")
    yield tag
    client.images.remove(tag, force=True)


RESET = r"""
shopt -s dotglob
for process in /proc/[0-9]*; do
  pid=${process#/proc/}
  [[ $pid == 1 || $pid == $$ || $(tr '\0' ' ' <$process/cmdline) == 'sleep infinity ' ]] ||
    kill -KILL $pid
done 2>/dev/null
set -e
if [[ ! -d /.pristine ]]; then
  mkdir /.pristine
  cp -a /testbed /root /.pristine
  printf '%s\n' /* >/.pristine/entries
fi
for entry in /*; do
  grep -qxF -- "$entry" /.pristine/entries || rm -rf -- "$entry"
done
rm -rf /testbed /root /tmp/* /var/tmp/*
cp -a /.pristine/testbed /.pristine/root /
"""
"""Reset the files and processes of a container to their state at the first reset."""


class SharedContainer:
    """A container that serves one test after another, each with a shell of its own.

    Its files and processes are reset before each test.
    """

    def __init__(self, image: str) -> None:
        self._container = container._Container(image)
        self._container.start(container._options(ownership.labels({}), False, ResourceLimits(), ()))

    @asynccontextmanager
    async def workspace(self, base_commit: str) -> AsyncIterator[DockerWorkspace]:
        """Open a workspace in the container. Closing it leaves the container running."""
        await asyncio.to_thread(self._reset)
        visitor = copy.copy(self._container)
        visitor._created = False
        shell = await visitor.connect(container.ROOT)
        workspace = DockerWorkspace(visitor, shell, root=container.ROOT, base_commit=base_commit)
        await workspace._begin("the container", "")
        try:
            yield workspace
        finally:
            await workspace.close()

    def remove(self) -> None:
        """Remove the container."""
        docker_daemon.remove_container(self._container._name)

    def _reset(self) -> None:
        found = docker_daemon.client().containers.get(self._container.id)
        code, output = found.exec_run(["bash", "-c", RESET], workdir="/")
        assert code == 0, output.decode()
