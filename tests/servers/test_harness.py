"""The server of the fixture `prefect`, in which tests run flows in their own process."""

import httpx
import pytest
from prefect.settings import PREFECT_API_URL


@pytest.mark.usefixtures("prefect")
def test_the_server_of_the_tests_sends_no_usage_data() -> None:
    """A server of Prefect's own defaults does."""
    answer = httpx.get(f"{PREFECT_API_URL.value()}/admin/settings", timeout=60)
    assert answer.json()["server"]["analytics_enabled"] is False
