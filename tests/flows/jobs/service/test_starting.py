"""A service starts only where it is safe and of use."""

import pytest

from agent.errors import InfrastructureError
from flows.display.errors import UsageError
from flows.jobs.service.app import VARIABLE, serve
from tests.servers.postgres import free_port

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


@pytest.mark.parametrize("host", ["0.0.0.0", "10.1.2.3", "::", "bench.example"])
async def test_an_address_for_others_needs_a_token(host: str) -> None:
    """The line names the variable."""
    with pytest.raises(UsageError, match=f"others can reach {host}, and {VARIABLE} is not set"):
        await serve(host, 8200, None, writes_per_minute=120)


async def test_a_short_token_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody would guess it."""
    monkeypatch.setenv(VARIABLE, "secret")
    with pytest.raises(UsageError, match="shorter than 16 characters"):
        await serve("0.0.0.0", 8200, None, writes_per_minute=120)


async def test_a_prefect_server_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without one, jobs would have no queue."""
    from prefect.settings import PREFECT_API_URL, temporary_settings

    with (
        temporary_settings(restore_defaults={PREFECT_API_URL}),
        pytest.raises(UsageError, match="serve needs a Prefect server"),
    ):
        await serve("127.0.0.1", 8200, None, writes_per_minute=120)
    url = f"http://127.0.0.1:{free_port()}/api"
    with (
        temporary_settings({PREFECT_API_URL: url}),
        pytest.raises(InfrastructureError, match="does not answer"),
    ):
        await serve("127.0.0.1", 8200, None, writes_per_minute=120)
