"""Pull or build images ahead of the cells that need them, and evict images to stay within a limit.

One task walks over the instances in the order of their cells. It gets the next image when a cell
waits for it or for a later one, or when fewer than `ahead` images wait for their first cell. If the
limit leaves no room, it evicts the least recently needed image, or else waits for an image that is
in use. An image is in use until the last cell of its instance has ended.

In a shard, some cells are run by other shards. Their instances are skipped.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from agent.errors import InfrastructureError
from agent.timings import STOP_CHECK_S
from eval.errors import ImageError
from eval.types import Instance
from flows.display.terminal import say
from flows.experiments.cells import Place
from flows.experiments.declaration import Images
from flows.experiments.stop import Stop
from flows.storage.images import EvictionResult, ImageCache
from flows.storage.lake import Lake

AT_ONCE = 2
"""Concurrent pulls and builds; more would only share the same network and disk."""


class Item(Protocol):
    """Work on an instance, such as a cell."""

    @property
    def instance(self) -> Instance: ...
    @property
    def place(self) -> Place: ...


Recorded = Callable[[Any, str | None], Place | None]
"""Return the place where all work of an item was done; None if some work is missing. The text is
the id of the local image, if there is one."""


class Places:
    """The places of items on the host, where no images are needed."""

    @asynccontextmanager
    async def open(self, item: Item) -> AsyncIterator[Place]:
        """Yield the place of an item."""
        yield item.place

    def skip(self, item: Item) -> None:
        """Drop an item that needs no image, because another program does its work."""


@dataclass
class _Turn:
    """One instance of the walk."""

    instance: Instance
    items: list[Item]
    remaining: int
    """Number of items that have not ended."""
    places: asyncio.Future[list[Place]]
    """The place of each item."""
    skipped: list[Item] = field(default_factory=list)
    is_requested: bool = False
    hold: ExitStack = field(default_factory=ExitStack)
    is_held: bool = False


@asynccontextmanager
async def schedule_images(
    items: Sequence[Item],
    dataset: str,
    images: Images,
    lake: Lake,
    recorded: Recorded,
    stop: Stop | None = None,
) -> AsyncIterator[Places]:
    """Pull or build the images of `items` in order during the block. Yield the places of the items.

    With a limit, the items of an instance have to be consecutive.

    Raises:
        ImageError: no Docker daemon answers.
    """
    if not any(item.place.environment == "docker" for item in items):
        yield Places()
        return
    cache = await asyncio.to_thread(ImageCache.of, lake, images.keep_gb)
    schedule = ImageSchedule(items, dataset, images.ahead, cache, recorded, stop or Stop())
    walk = asyncio.create_task(schedule.walk())
    try:
        yield schedule
    finally:
        walk.cancel()
        await asyncio.wait({walk})
        schedule.close()
    try:
        _report(await asyncio.to_thread(cache.make_room))
    except (ImageError, InfrastructureError) as error:
        say(f"images stay until the next run: {error}")


class ImageSchedule(Places):
    """Tracks which images are local, on their way, and in use."""

    def __init__(
        self,
        items: Sequence[Item],
        dataset: str,
        ahead: int,
        cache: ImageCache,
        recorded: Recorded,
        stop: Stop,
    ) -> None:
        self._dataset, self._ahead, self._cache, self._recorded = dataset, ahead, cache, recorded
        self._stop = stop
        self._turns: dict[str, _Turn] = {}
        for item in items:
            places = asyncio.get_running_loop().create_future()
            turn = _Turn(item.instance, [], 0, places)
            turn = self._turns.setdefault(item.instance.instance_id, turn)
            turn.items.append(item)
            turn.remaining += 1
        self._to_come = deque(self._turns.values())
        """The turn that the walk has reached, and those after it."""
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._expected: dict[str, int] = {}
        """Bytes that are on their way, by instance."""
        self._changed = asyncio.Event()

    @asynccontextmanager
    async def open(self, item: Item) -> AsyncIterator[Place]:
        """Yield the place of an item once its image is local, and keep the image during the block.

        If the image is unavailable, `place.problem` says why. Every item enters once, or is
        skipped. With a limit, items have to enter in order, because an item may wait for earlier
        ones to end. An item that was skipped may enter later, and then its image comes next.

        Raises:
            Interrupted: the operator asked to stop.
        """
        turn = self._turns[item.instance.instance_id]
        if item in turn.skipped:
            turn.skipped.remove(item)
            if not turn.remaining:  # its image was released
                places = asyncio.get_running_loop().create_future()
                turn = _Turn(turn.instance, turn.items, 0, places, turn.skipped)
                self._turns[item.instance.instance_id] = turn
                self._to_come.insert(1, turn)
            turn.remaining += 1
        turn.is_requested = True
        self._notify()
        try:
            while not turn.places.done():
                await asyncio.wait({turn.places}, timeout=STOP_CHECK_S)
                self._stop.check()
            yield turn.places.result()[turn.items.index(item)]
        finally:
            self._leave(turn)

    def skip(self, item: Item) -> None:
        """Drop an item that needs no image here, because another program does its work."""
        turn = self._turns[item.instance.instance_id]
        turn.skipped.append(item)
        self._leave(turn)
        self._notify()

    async def walk(self) -> None:
        """Get the images of all instances, in order."""
        try:
            async with asyncio.TaskGroup() as fetches:
                while True:
                    while self._to_come:
                        await self._prepare(self._to_come[0], fetches)
                        self._to_come.popleft()
                    await self._changed.wait()
        except BaseExceptionGroup as group:
            # No more images will arrive, so all waiting items fail.
            for turn in self._turns.values():
                if not turn.places.done():
                    turn.places.set_exception(group.exceptions[0])
                    turn.places.exception()  # mark it as retrieved, even if no cell waits for it

    def close(self) -> None:
        """Release all images and abort pulls in progress."""
        self._cache.store.stop()
        for turn in self._turns.values():
            self._release(turn)

    async def _prepare(self, turn: _Turn, fetches: asyncio.TaskGroup) -> None:
        """Find the image of an instance, or start to fetch it, once it is due."""
        try:
            if places := await asyncio.to_thread(self._read_places, turn):
                turn.places.set_result(places)
                return
            while turn.remaining and not self._is_due():
                await self._changed.wait()
            if not turn.remaining:
                return
            self._stop.check()
            image = turn.instance.image
            await asyncio.to_thread(turn.hold.enter_context, self._cache.store.hold(image))
            turn.is_held = True
            if not turn.remaining:  # its last item has just been skipped
                self._release(turn)
            elif image_id := await asyncio.to_thread(self._cache.find, image):
                turn.places.set_result(_at_image(turn, image_id))
            else:
                await self._find_room(turn)
                fetches.create_task(self._fetch(turn))
        except (ImageError, InfrastructureError) as error:
            turn.places.set_result(_without_image(turn, error))

    def _is_due(self) -> bool:
        """Return True if the next image of the walk should be local by now."""
        turns = self._turns.values()
        waiting = sum(turn.is_held and not turn.is_requested for turn in turns)
        return waiting < self._ahead or any(turn.is_requested for turn in self._to_come)

    def _leave(self, turn: _Turn) -> None:
        turn.remaining -= 1
        if not turn.remaining:
            self._release(turn)

    def _read_places(self, turn: _Turn) -> list[Place]:
        """Return the places where an instance was done; empty if any work on it is missing."""
        image_id = self._cache.find(turn.instance.image)
        places = [self._recorded(item, image_id) for item in turn.items]
        return [place for place in places if place] if all(places) else []

    async def _find_room(self, turn: _Turn) -> None:
        """Wait until the image fits, or until no other image is in use and waiting is pointless."""
        while True:
            changed = self._changed
            expected = await asyncio.to_thread(self._cache.get_expected_bytes, turn.instance.image)
            needed = expected + sum(self._expected.values())
            room = await asyncio.to_thread(self._cache.make_room, needed)
            _report(room)
            in_use = any(other.is_held for other in self._turns.values() if other is not turn)
            if room.is_enough or not in_use:
                self._expected[turn.instance.instance_id] = expected
                return
            await changed.wait()

    async def _fetch(self, turn: _Turn) -> None:
        try:
            async with self._slots:
                fetch = self._cache.fetch
                fetched = await asyncio.to_thread(fetch, turn.instance, self._dataset)
            if fetched.how:
                say(str(fetched))
            turn.places.set_result(_at_image(turn, fetched.image_id))
        except (ImageError, InfrastructureError) as error:
            turn.places.set_result(_without_image(turn, error))
        finally:
            del self._expected[turn.instance.instance_id]
            self._notify()

    def _release(self, turn: _Turn) -> None:
        if turn.is_held:
            try:
                self._cache.record_need(turn.instance.image)
            finally:
                turn.hold.close()
                turn.is_held = False
                self._notify()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def _at_image(turn: _Turn, image_id: str) -> list[Place]:
    return [replace(item.place, image_digest=image_id) for item in turn.items]


def _without_image(turn: _Turn, error: Exception) -> list[Place]:
    return [replace(item.place, problem=str(error)) for item in turn.items]


def _report(room: EvictionResult) -> None:
    for row in room.removed:
        say(f"image {row['image']}: removed")
