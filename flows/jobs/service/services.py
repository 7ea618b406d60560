"""The objects that the routes work with."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends
from prefect.client.orchestration import PrefectClient
from starlette.requests import HTTPConnection

from flows.jobs.service.board import Board
from flows.jobs.service.feed import Feed
from flows.jobs.service.guard import Limits
from flows.storage.lake import Lake


@dataclass(frozen=True)
class Service:
    """Objects that all requests share."""

    lake: Lake
    client: PrefectClient
    board: Board
    feed: Feed
    limits: Limits


def service_of(connection: HTTPConnection) -> Service:
    """Return the service that a request is for."""
    service: Service = connection.app.state.service
    return service


Used = Annotated[Service, Depends(service_of)]
