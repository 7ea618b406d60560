"""The server of the fixture `prefect`, in which tests run flows in their own process."""

import pytest
from prefect.settings import PREFECT_API_URL

from tests.servers.prefect_server import PrefectApi


@pytest.mark.usefixtures("prefect")
def test_the_server_of_the_tests_sends_no_usage_data() -> None:
    """A server of Prefect's own defaults does."""
    url = PREFECT_API_URL.value()
    assert url is not None
    assert PrefectApi(url).get("/admin/settings")["server"]["analytics_enabled"] is False
