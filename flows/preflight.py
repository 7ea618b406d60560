"""Images are checked before a run, and each of them once."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import UTC, datetime

from agent.errors import InfrastructureError
from eval import preflight
from eval.errors import ImageError
from eval.preflight import Preflight, preflight_key
from eval.types import Instance, Shell
from flows import places, rows, solve
from flows.cells import Cell, Place
from flows.keys import attempt_key
from flows.lake import Lake, Row
from flows.plan import Plan
from flows.progress import say


@dataclass(frozen=True)
class Checked:
    """One image, as a run has to know it."""

    instance_id: str
    reasons: tuple[str, ...]
    """What is wrong with it, or what kept it from being checked; none where it is fit."""
    is_known: bool
    """False where infrastructure kept it from being checked."""
    from_lake: bool = False
    """Whether it was checked before."""


async def check_all(
    instances: list[Instance], located: dict[str, Place], lake: Lake, concurrency: int
) -> AsyncIterator[Checked]:
    """The images of instances as they become known; `located` gives the places by instance.

    A result is kept in the lake by the image's digest. On the host, where there is none,
    nothing is kept.
    """
    slots = asyncio.Semaphore(concurrency)

    async def one(instance: Instance) -> Checked:
        async with slots:
            return await _check(instance, located[instance.instance_id], lake)

    for finished in asyncio.as_completed([one(instance) for instance in instances]):
        yield await finished


async def refuse(plan: Plan) -> dict[str, str]:
    """Check the images of a plan and record the cells that must not run; the reason by
    instance id."""
    instances = {cell.instance.instance_id: cell.instance for cell in plan.cells}
    located = {cell.instance.instance_id: cell.place for cell in plan.cells}
    refused = {}
    checks = check_all(list(instances.values()), located, plan.lake, plan.experiment.concurrency)
    async for checked in checks:
        say(line(checked))
        if checked.reasons:
            refused[checked.instance_id] = f"preflight failed: {'; '.join(checked.reasons)}"
    for cell in plan.cells:
        if reason := refused.get(cell.instance.instance_id):
            await asyncio.to_thread(_record, cell, reason, plan.lake)
    return refused


def line(checked: Checked) -> str:
    """A check as it is shown."""
    verdict = "passes" if not checked.reasons else "fails" if checked.is_known else "unknown"
    before = ", known from before" if checked.from_lake else ""
    return "; ".join([f"preflight of {checked.instance_id}: {verdict}{before}", *checked.reasons])


async def _check(instance: Instance, place: Place, lake: Lake) -> Checked:
    unit = place.image_digest and preflight_key(instance, place.image_digest, network=place.network)
    if unit and (row := lake.read_shared("preflights", unit)):
        return Checked(instance.instance_id, tuple(row["reasons"]), True, from_lake=True)

    def fresh() -> AbstractAsyncContextManager[Shell]:
        return places.workspace(instance, place, f"preflight-{instance.instance_id}")

    clock = time.perf_counter()
    try:
        found = await preflight.check(instance, fresh)
    except (InfrastructureError, ImageError) as error:
        return Checked(instance.instance_id, (str(error),), False)
    if unit:
        duration_s = time.perf_counter() - clock
        lake.write_shared("preflights", unit, _row(found, instance, place, duration_s))
    return Checked(instance.instance_id, found.reasons, True)


def _row(found: Preflight, instance: Instance, place: Place, duration_s: float) -> Row:
    return {
        "instance_id": found.instance_id,
        "image": instance.image,
        "image_digest": place.image_digest,
        "row_digest": instance.digest,
        "network": place.network,
        "passed": found.passed,
        "reasons": [rows.text(reason) for reason in found.reasons],
        "harness_version": found.harness_version,
        "checked_at": found.checked_at,
        "duration_s": duration_s,
    }


def _record(cell: Cell, reason: str, lake: Lake) -> None:
    """A row for a cell that is not run, unless there is one of an earlier run."""
    attempt_id = attempt_key(cell)[:32]
    if lake.has("attempts", *cell.partition, attempt_id):
        return
    ended = rows.Interruption("infrastructure", reason)
    solve.record(lake, rows.AttemptRecord(attempt_id, cell, ended, [], 0.0, datetime.now(UTC), 0.0))
