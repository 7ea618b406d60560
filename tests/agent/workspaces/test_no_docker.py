"""Messages when the Docker daemon is unreachable."""

import pytest

from agent.errors import WorkspaceError
from agent.workspaces import DockerWorkspace, docker_available, docker_daemon


@pytest.fixture(autouse=True)
def no_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make Docker's address lead nowhere, and do not reuse a client of another test."""
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    monkeypatch.setattr(docker_daemon, "_connect", docker_daemon._connect.__wrapped__)


async def test_opening_says_what_to_do() -> None:
    """The one-line error says to start Docker or to choose the host, and is not retryable."""
    with pytest.raises(WorkspaceError, match=r"no Docker daemon.*environment: host") as caught:
        await DockerWorkspace.open(image="any", base_commit="HEAD")
    assert not caught.value.retryable
    assert "\n" not in str(caught.value)


async def test_availability_is_one_line() -> None:
    """The reason is one line that can be shown to the user."""
    reason = await docker_available()
    assert reason is not None
    assert "no Docker daemon answers" in reason
    assert "\n" not in reason
