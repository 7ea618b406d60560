"""Events that start nothing, whatever the state of the service is."""

from datetime import UTC, datetime
from typing import Any

import pytest

from flows.display.errors import UsageError
from flows.jobs.forges.protocol import Event
from flows.jobs.request import FORGE, TOKEN
from flows.jobs.service.triggers import act
from tests.flows.jobs.conftest import NAME
from tests.servers.forge import Forge

NO_SERVICE: Any = None


@pytest.mark.parametrize("user", ["", "stranger"])
async def test_only_known_people_who_may_write_start_jobs(
    user: str, forge: Forge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deleted account has no name, and does not act with the rights of the token."""
    monkeypatch.setenv(FORGE, forge.url)
    monkeypatch.setenv(TOKEN, forge.token)
    event = Event(datetime.now(UTC), 7, user=user, text="Fix it.")
    answer = await act(NO_SERVICE, f"{forge.url}/{NAME}", event, "", set())
    assert answer == {"ignored": f"{user or 'an unknown user'} may not write to {NAME}"}
    monkeypatch.delenv(TOKEN)
    with pytest.raises(UsageError, match="the service has no token"):
        await act(NO_SERVICE, f"{forge.url}/{NAME}", event, "", set())
