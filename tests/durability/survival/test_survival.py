"""An attempt survives a killed worker, a model API that is away, and a tool with a bug."""

import asyncio
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from agent.models.protocol import ModelReply
from agent.session.steps import from_record
from eval import instances
from flows.storage.images import ImageCache
from flows.storage.journals import open_journal
from flows.storage.lake import Lake
from tests.durability.survival.faults import FAULTS, Survived, instance, survive
from tests.durability.survival.keeping import FIRST_WAIT_S

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", FAULTS)
async def test_an_attempt_survives_a_fault(name: str, tmp_path: Path) -> None:
    """It stays open until it is submitted, keeps its results, waits, and buys no call twice."""
    check(await survive(name, str(tmp_path), "host"))


@pytest.mark.docker
@pytest.mark.full
@pytest.mark.parametrize("name", FAULTS)
async def test_a_fault_in_a_container_leaves_none(
    name: str, tmp_path: Path, docker_client: Any
) -> None:
    """The same holds in Docker, also if the worker of the container is killed."""
    images = ImageCache.of(Lake.open(tmp_path))
    await asyncio.to_thread(images.fetch, instance(), instances.BUNDLED)
    check(await survive(name, str(tmp_path), "docker"))
    [attempt] = open_journal(Lake.existing(tmp_path)).find("")
    wanted = {"label": f"durabench.attempt={attempt.attempt_id}"}
    assert docker_client.containers.list(all=True, filters=wanted) == []


def check(survived: Survived) -> None:
    assert survived.during.outcome is None
    assert json.loads(survived.after.outcome or "{}")["status"] == "submitted"
    before, after = survived.during.results, survived.after.results
    assert before
    assert before.items() <= after.items()
    assert len(survived.tenures) == len(survived.workers)
    waits_s = [later.began_at - earlier.ended_at for earlier, later in pairwise(survived.workers)]
    assert all(wait >= FIRST_WAIT_S * 2**number for number, wait in enumerate(waits_s))
    replies = (from_record(step).result for step in survived.after.steps if step.kind == "model")
    retries = sum(reply.retries for reply in replies if isinstance(reply, ModelReply))
    assert retries == len(survived.api.failed)
    assert waits_s or retries
    sold, account = survived.api.answered, survived.account
    assert sorted(sold) == list(range(len(sold)))
    assert len(sold) == account.calls_billed == account.calls_credited
