"""The health of the service when the Prefect server is unreachable."""

from types import SimpleNamespace
from typing import cast
from unittest import mock

import httpx
import pytest
from prefect.client.orchestration import PrefectClient

from flows.jobs.service import routes
from flows.jobs.service.feed import Service


@pytest.mark.parametrize("error", [httpx.ReadTimeout(""), httpx.ConnectError("refused")])
async def test_an_error_of_the_health_check_is_a_problem(error: httpx.TransportError) -> None:
    """An error without a text, too. The client is a mock: a real one rarely has that error."""
    client = mock.create_autospec(PrefectClient, instance=True)
    client.api_healthcheck.return_value = error
    service = cast(Service, SimpleNamespace(client=client))
    assert await routes._prefect_problem(service) == (str(error) or "ReadTimeout")
