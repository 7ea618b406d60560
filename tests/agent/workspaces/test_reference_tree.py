"""Images whose work tree is not that of the base commit: their own changes are nobody's."""

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any

import pytest
from docker import DockerClient

from agent.workspaces import Checkpoint, DockerWorkspace, HostWorkspace, Workspace
from tests.agent.containers import image_of
from tests.agent.repositories import by_script
from tests.agent.workspaces.conftest import IN_DOCKER, REPOSITORY

TREES = {
    "clean": "",
    "changed": "sed -i 's/one/uno/' text.txt; rm gone.txt; echo new >new.txt; chmod +x tool.sh",
    "staged": "sed -i 's/one/uno/' text.txt; git rm -q gone.txt; echo new >new.txt; git add -A",
    "committed on top": "sed -i 's/one/uno/' text.txt; git rm -q gone.txt; git commit -qam image",
    "line ends": r"echo '*.txt eol=crlf' >.gitattributes; sed -i 's/one/uno/;s/$/\r/' text.txt",
    "both": "sed -i 's/one/uno/' text.txt; git commit -qam image; sed -i 's/three/tre/' text.txt",
}

EDIT = (
    "sed -i 's/two/due/' text.txt; echo y = 2 >>pkg/deep/mod.py; echo z = 3 >made.py; rm open.txt"
)

Opener = Callable[[], Coroutine[Any, Any, Workspace]]


@pytest.fixture(params=TREES.values(), ids=TREES)
def script(request: pytest.FixtureRequest) -> str:
    return f"{REPOSITORY}\n{request.param}"


@pytest.fixture(params=["host", pytest.param("docker", marks=IN_DOCKER)])
async def opener(
    request: pytest.FixtureRequest, script: str, docker_client: DockerClient
) -> AsyncIterator[Opener]:
    """Yield what opens fresh workspaces of the same image."""
    async with AsyncExitStack() as stack:
        image = (
            stack.enter_context(image_of(script, docker_client))
            if (request.param == "docker")
            else ""
        )

        async def opened() -> Workspace:
            workspace: Workspace
            if image:
                workspace = await DockerWorkspace.open(image=image, base_commit="base")
            else:
                workspace = await HostWorkspace.open(prepare=by_script(script), base_commit="base")
            stack.push_async_callback(workspace.close)
            return workspace

        yield opened


async def sh(workspace: Workspace, command: str) -> str:
    done = await workspace.run(command, timeout_s=20)
    assert done.exit_code == 0, done.output
    return done.output


async def test_only_the_changes_since_the_opening_are_a_patch(opener: Opener) -> None:
    """An untouched image has no patch."""
    workspace, fresh, restored = [await opener() for _ in range(3)]
    assert (await workspace.diff(), await workspace.changes()) == ("", [])
    opening = await workspace.checkpoint()
    assert opening.delta == b""
    await sh(workspace, EDIT)
    patch = await workspace.diff()
    assert {change.path for change in await workspace.changes()} == {
        "text.txt", "pkg/deep/mod.py", "made.py", "open.txt",
    }  # fmt: skip
    assert [line for line in patch.splitlines() if line.startswith("diff")] == [
        f"diff --git a/{path} b/{path}"
        for path in ("made.py", "open.txt", "pkg/deep/mod.py", "text.txt")
    ]
    assert "uno" not in "".join(line for line in patch.splitlines() if line[:1] in "+-")
    await fresh.apply(patch)
    assert await fresh.tree() == await workspace.tree()
    await restored.restore(await workspace.checkpoint())
    assert await restored.tree() == await workspace.tree()
    assert await restored.diff() == patch
    await restored.restore(opening)
    assert (await restored.diff(), await restored.tree()) == ("", opening.tree)


async def test_a_patch_with_the_changes_of_the_image_applies(opener: Opener) -> None:
    """A program that asks git for its patch compares with a commit."""
    workspace, fresh, restored = [await opener() for _ in range(3)]
    await sh(workspace, EDIT)
    index = "cp .git/index ../index; export GIT_INDEX_FILE=$PWD/../index; git add -A"
    compare = "git -c core.autocrlf=false diff --cached --binary --full-index"
    await fresh.apply(await sh(workspace, f"({index}; {compare} base)"))
    assert await fresh.tree() == await workspace.tree()
    bytewise = "echo '* -text' >.git/info/attributes"
    delta = (await sh(workspace, f"({bytewise}; {index}; {compare} base)")).encode()
    await restored.restore(Checkpoint(await workspace.tree(), delta))
    assert await restored.tree() == await workspace.tree()
