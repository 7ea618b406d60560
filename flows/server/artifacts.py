"""Names of artifacts, and removal of their old versions from a Prefect server."""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import httpx
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import (
    ArtifactCollectionFilter,
    ArtifactCollectionFilterKey,
    ArtifactFilter,
    ArtifactFilterKey,
)
from prefect.client.schemas.sorting import ArtifactSort
from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError
from prefect.settings import PREFECT_API_URL

from agent.errors import InfrastructureError
from eval.digests import canonical_digest
from reports.series import series_of

KINDS = ("progress", "report", "cells", "page")
"""Artifacts of an experiment, as published by `flows.server.progress` and `flows.report`."""

HISTORY = "history"
"""The artifact of a series of dated runs, as published by `flows.report`."""

_PAGE = 50
"""Artifacts per answer; small, because each includes its content."""


@dataclass(frozen=True)
class Version:
    """An artifact version that has been superseded."""

    id: UUID
    size_bytes: int
    """Approximate size of the content, as sent by the API."""


def artifact_key(kind: str, experiment: str, lake_id: str) -> str:
    """Return the key of an experiment's artifact: lower-case letters, digits and dashes.

    Lakes that share a server may have experiments of the same name, and names that differ in other
    characters only are distinct.
    """
    words = re.sub(r"[^a-z0-9]+", "-", experiment.lower()).strip("-")
    return f"{kind}-{words}-{canonical_digest([lake_id, experiment])[:8]}"


@contextmanager
def connect() -> Iterator[SyncPrefectClient | None]:
    """Yield a client of the configured server; None if none is configured.

    Raises:
        InfrastructureError: the server does not answer or returns an error.
    """
    url = PREFECT_API_URL.value()
    if not url:
        yield None
        return
    try:
        with get_client(sync_client=True) as client:
            yield client
    except (httpx.TransportError, PrefectHTTPStatusError) as error:
        raise InfrastructureError(f"the Prefect API {url} does not answer: {error}") from None


def old_versions(
    client: SyncPrefectClient, experiment: str, lake_id: str, before: datetime
) -> list[Version]:
    """Return all but the latest version of an experiment's artifacts, if older than `before`.

    The history of the series that the experiment belongs to is one of them.
    """
    keys = [artifact_key(kind, experiment, lake_id) for kind in KINDS]
    keys.append(artifact_key(HISTORY, series_of(experiment), lake_id))
    latest = {
        collection.latest_id
        for collection in client.read_latest_artifacts(
            artifact_filter=ArtifactCollectionFilter(key=ArtifactCollectionFilterKey(any_=keys))
        )
    }
    chosen, old, offset = ArtifactFilter(key=ArtifactFilterKey(any_=keys)), [], 0
    while page := client.read_artifacts(
        artifact_filter=chosen, sort=ArtifactSort.ID_DESC, limit=_PAGE, offset=offset
    ):
        offset += len(page)
        old += [
            Version(artifact.id, len(str(artifact.data)))
            for artifact in page
            if artifact.id not in latest and artifact.created and artifact.created < before
        ]
    return old


def remove(client: SyncPrefectClient, versions: Iterable[Version]) -> None:
    """Remove versions. Versions that are already removed are ignored."""
    for version in versions:
        with suppress(ObjectNotFound):
            client.delete_artifact(version.id)
