"""The progress of a run in Prefect."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from prefect.exceptions import PrefectHTTPStatusError

from flows.server import progress
from flows.server.progress import RunProgress
from flows.storage.lake import Lake


class Server:
    """Stands in for a Prefect server that answers every second request with an error.

    A real one does so only when its database is too slow, which nothing can make it be in time.
    """

    def __init__(self) -> None:
        self.asked = 0
        self.shown: list[float] = []

    async def create(self, progress: float, **options: Any) -> UUID:
        self._answer(progress)
        return uuid4()

    async def update(self, artifact: UUID, progress: float) -> None:
        self._answer(progress)

    def _answer(self, shown: float) -> None:
        self.asked += 1
        if self.asked % 2:
            request = httpx.Request("PATCH", "http://127.0.0.1/api/artifacts")
            response = httpx.Response(500, request=request)
            raise PrefectHTTPStatusError("no connection left", request=request, response=response)
        self.shown.append(shown)


async def test_a_server_error_does_not_end_the_run(
    tmp_path: Path, set_timings: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The artifact is created and updated again after an error of the server."""
    set_timings(server_retry_s=0.01)
    monkeypatch.setattr(progress, "INTERVAL_S", 0.001)
    server = Server()
    monkeypatch.setattr(progress, "acreate_progress_artifact", server.create)
    monkeypatch.setattr(progress, "aupdate_progress_artifact", server.update)
    with RunProgress("trial", 4, Lake.existing(tmp_path)) as run:
        await run.skip({"resolved": 2})
        await run.advance("gold", "resolved")
        await run.advance("null", "unresolved")
    assert server.shown == [50, 75, 100]
