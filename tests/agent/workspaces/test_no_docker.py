"""Messages when no Docker daemon answers."""

import pytest

from agent.errors import WorkspaceError
from agent.workspaces import DockerWorkspace, container, docker_available


@pytest.fixture(autouse=True)
def no_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Docker's address leads nowhere, and no client of another test is reused."""
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    monkeypatch.setattr(container, "_connect", container._connect.__wrapped__)


async def test_opening_says_what_to_do() -> None:
    """Start Docker or choose the host: one line, and no retry."""
    with pytest.raises(WorkspaceError, match=r"no Docker daemon.*environment: host") as caught:
        await DockerWorkspace.open(image="any", base_commit="HEAD")
    assert not caught.value.retryable
    assert "\n" not in str(caught.value)


async def test_availability_is_one_line() -> None:
    """The reason is fit for a screen."""
    reason = await docker_available()
    assert reason is not None
    assert "no Docker daemon answers" in reason
    assert "\n" not in reason
