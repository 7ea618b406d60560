"""Check each image once, before anything runs on it."""

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

from agent.errors import InfrastructureError, Unfit
from eval import preflight
from eval.errors import ImageError
from eval.preflight import preflight_key
from eval.types import Instance
from flows.cells.images.schedule import schedule_images
from flows.display.terminal import say
from flows.experiments import records, resources, workspaces
from flows.experiments.cell_state import Interruption
from flows.experiments.cells import Cell, Place
from flows.experiments.declaration import Experiment
from flows.experiments.keys import attempt_id_of
from flows.storage.files import make_readable
from flows.storage.images import last_digest
from flows.storage.lake import Lake


@dataclass(frozen=True)
class Checked:
    """Result of the check of one image."""

    instance_id: str
    reasons: tuple[str, ...]
    """Reasons why the image failed or could not be checked; empty if it passed."""
    is_known: bool
    """False if the infrastructure failed during the check."""
    from_lake: bool = False
    """True if the result is from an earlier check."""


@dataclass(frozen=True)
class _Image:
    """The image of an instance that is waiting for its check."""

    instance: Instance
    place: Place


async def check_all(
    instances: list[Instance], experiment: Experiment, lake: Lake, concurrency: int
) -> AsyncIterator[Checked]:
    """Check the images of an experiment's instances. Yield each result when it is available.

    Missing images are pulled or built. Results are recorded in the lake by image digest, so that an
    image checked before is not pulled again.

    Raises:
        ImageError: no Docker daemon answers.
    """
    slots = asyncio.Semaphore(concurrency)
    place = Place("docker", network=experiment.network, resources=experiment.resources)
    waiting = [_Image(instance, place) for instance in instances]

    def read_place(image: _Image, local_id: str | None) -> Place | None:
        # Without a local image, its last known digest counts.
        digest = local_id or last_digest(lake, image.instance.image)
        place = replace(image.place, image_digest=digest)
        unit = _unit(image.instance, place)
        return place if unit and lake.read_shared("preflights", unit) else None

    async def check(image: _Image) -> Checked:
        async with slots, places.open(image) as place:
            return await _check(image.instance, place, lake)

    images = schedule_images(waiting, experiment.dataset, experiment.images, lake, read_place)
    async with images as places:
        # Start the tasks in order, as the schedule requires; `as_completed` alone has no order.
        checks = [asyncio.create_task(check(image)) for image in waiting]
        for finished in asyncio.as_completed(checks):
            yield await finished


class PreflightFailed(Exception):
    """The image of a cell failed its preflight, so the cell does not run. This is recorded."""


class PreflightGate:
    """Lets a cell run only if its image passes the preflight. Each image is checked once."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._refusals: dict[str, str] = {}
        """Reason for the refusal by instance id; empty if the image passed."""
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def check(self, cell: Cell) -> None:
        """Return if the image passes. Return also if it is unavailable, which the attempt records.

        Raises:
            PreflightFailed: the image failed its preflight.
        """
        instance_id = cell.instance.instance_id
        if cell.place.problem:
            return
        async with self._locks[instance_id]:
            if instance_id not in self._refusals:
                checked = await _check(cell.instance, cell.place, self._lake)
                say(line(checked))
                reasons = "; ".join(checked.reasons)
                self._refusals[instance_id] = reasons and f"preflight failed: {reasons}"
        if reason := self._refusals[instance_id]:
            await asyncio.to_thread(_record, cell, reason, self._lake)
            raise PreflightFailed(reason)


def line(checked: Checked) -> str:
    """Return a check as one line for display."""
    verdict = "passes" if not checked.reasons else "fails" if checked.is_known else "unknown"
    before = ", known from before" if checked.from_lake else ""
    return "; ".join([f"preflight of {checked.instance_id}: {verdict}{before}", *checked.reasons])


def _unit(instance: Instance, place: Place) -> str | None:
    """Return the name of the result in the lake; None on the host, where none is recorded."""
    digest = place.image_digest
    limits = resources.in_key(place.limits(instance))
    return digest and preflight_key(instance, digest, network=place.network, resources=limits)


async def _check(instance: Instance, place: Place, lake: Lake) -> Checked:
    unit = _unit(instance, place)
    if unit and (row := lake.read_shared("preflights", unit)):
        return Checked(instance.instance_id, tuple(row["reasons"]), True, from_lake=True)

    purpose = f"preflight-{instance.instance_id}"
    for_grading = partial(workspaces.workspace, instance, place, purpose)
    for_arm = partial(for_grading, grading=False)
    apart = partial(workspaces.open_apart, purpose)
    clock = time.perf_counter()
    try:
        result = await preflight.check(instance, for_grading, apart, for_arm)
    except Unfit as error:
        return Checked(instance.instance_id, (str(error),), True)
    except (InfrastructureError, ImageError) as error:
        return Checked(instance.instance_id, (str(error),), False)
    if unit:
        row = {
            "instance_id": result.instance_id,
            "image": instance.image,
            "image_digest": place.image_digest,
            "row_digest": instance.digest,
            "network": place.network,
            "passed": result.passed,
            "reasons": [make_readable(reason) for reason in result.reasons],
            "harness_version": result.harness_version,
            "checked_at": result.checked_at,
            "duration_s": time.perf_counter() - clock,
        }
        lake.write_shared("preflights", unit, row)
    return Checked(instance.instance_id, result.reasons, True)


def _record(cell: Cell, reason: str, lake: Lake) -> None:
    """Record an attempt row for a refused cell, unless an earlier run left one."""
    attempt_id = attempt_id_of(cell)
    if not lake.has("attempts", *cell.partition, attempt_id):
        refusal, now = Interruption("refused", reason), datetime.now(UTC)
        records.write(lake, records.AttemptRecord(attempt_id, cell, refusal, [], 0.0, now, 0.0))
