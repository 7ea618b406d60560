"""Opening a workspace in a new container, against plain git in another one."""

import asyncio
import time
from pathlib import Path

from docker import DockerClient

from agent.workspaces import DockerWorkspace, docker_daemon
from eval.base_image import ensure_base
from tests.agent.containers import image_of
from tests.bench.timing import Ratio

FILES, FOLDERS = 4_000, 40
LIMIT = 0.3

REPOSITORY = f"""
set -e
git init -q -b main .
git config user.name Bench
git config user.email bench@example.org
for folder in $(seq {FOLDERS}); do
  mkdir "$folder"
  for file in $(seq {FILES // FOLDERS}); do
    seq -f "line %g of $folder/$file" 150 >"$folder/$file.txt"
  done
done
git add -A
git commit -qm base
git tag base
"""

ADD = """
set -e
export GIT_DIR=/tmp/look GIT_OBJECT_DIRECTORY=/tmp/look/objects GIT_WORK_TREE=/testbed
git init -q
echo /testbed/.git/objects >/tmp/look/objects/info/alternates
git read-tree "$(git --git-dir=/testbed/.git rev-parse base)"
git add -A
git write-tree
"""
"""A look at the work tree that leaves the index and the objects of the repository alone."""


def run(folder: Path, *, pairs: int) -> list[Ratio]:
    """Measure both alternately. Both hash every file, as no stat of the image is known yet."""
    client = docker_daemon.client()
    ensure_base(client)
    with image_of(REPOSITORY, client) as image:
        ours, theirs = [], []
        for _ in range(pairs):
            theirs.append(_git_s(image, client))
            ours.append(_open_s(image))
    title = f"opening a workspace of {FILES:,} files in a container, against `git add` in another"
    return [Ratio(title, ours, theirs, LIMIT)]


def _open_s(image: str) -> float:
    async def opened() -> float:
        start = time.perf_counter()
        workspace = await DockerWorkspace.open(image=image, base_commit="base")
        took_s = time.perf_counter() - start
        await workspace.close()
        return took_s

    return asyncio.run(opened())


def _git_s(image: str, client: DockerClient) -> float:
    start = time.perf_counter()
    client.containers.run(image, ["bash", "-c", ADD], network_mode="none", remove=True)
    return time.perf_counter() - start
