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
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Generic, Protocol, Self, TypeVar

from agent.errors import InfrastructureError
from agent.timings import STOP_CHECK_S
from eval.errors import ImageError
from eval.types import Instance
from flows.display.terminal import say
from flows.experiments.cells import Place
from flows.experiments.declaration import Images
from flows.experiments.stop import Stop
from flows.storage.images import EvictionResult, Fetched, ImageCache
from flows.storage.lake import Lake

AT_ONCE = 2
"""Concurrent pulls and builds; more would only share the same network and disk."""


class Item(Protocol):
    """Work on an instance, such as a cell."""

    @property
    def instance(self) -> Instance: ...
    @property
    def place(self) -> Place: ...
    def at(self, place: Place) -> Self:
        """Return the same item in another place."""


T = TypeVar("T", bound=Item)


class Placing(Protocol[T]):
    """Gives items their places."""

    def __call__(self, item: T) -> AbstractAsyncContextManager[T]:
        """Give an item its place during a block."""

    def skip(self, item: T) -> None:
        """Drop an item that needs no image here, because another program does its work."""


class _AsTheyAre(Generic[T]):
    """Leaves items where they are: on the host, no images are needed."""

    def __call__(self, item: T) -> AbstractAsyncContextManager[T]:
        return nullcontext(item)

    def skip(self, item: T) -> None:
        pass


Recorded = Callable[[T, str | None], Place | None]
"""Return the place where all work of an item was done; None if some work is missing. The text is
the id of the local image, if there is one."""


@dataclass
class _Turn(Generic[T]):
    """One instance of the walk."""

    instance: Instance
    items: list[T]
    left: int
    """Number of items that have not ended."""
    ready: asyncio.Future[list[Place]]
    """The place of each item."""
    skipped: list[T] = field(default_factory=list)
    is_asked: bool = False
    hold: ExitStack = field(default_factory=ExitStack)
    is_held: bool = False


@asynccontextmanager
async def scheduled(
    items: Sequence[T],
    dataset: str,
    images: Images,
    lake: Lake,
    recorded: Recorded[T],
    stop: Stop | None = None,
) -> AsyncIterator[Placing[T]]:
    """Pull or build the images of `items` in order during the block.

    Yield what gives an item its place; see `ImageSchedule.__call__`. With a limit, the
    items of an instance have to be consecutive. On the host no images are needed, and items are not
    changed.

    Raises:
        ImageError: no Docker daemon answers.
    """
    if not any(item.place.environment == "docker" for item in items):
        yield _AsTheyAre()
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
        _tell(await asyncio.to_thread(cache.make_room))
    except (ImageError, InfrastructureError) as error:
        say(f"images stay until the next run: {error}")


class ImageSchedule(Generic[T]):
    """Tracks which images are local, on their way, and in use."""

    def __init__(
        self,
        items: Sequence[T],
        dataset: str,
        ahead: int,
        cache: ImageCache,
        recorded: Recorded[T],
        stop: Stop,
    ) -> None:
        self._dataset, self._ahead, self._cache, self._recorded = dataset, ahead, cache, recorded
        self._stop = stop
        self._turns: dict[str, _Turn[T]] = {}
        for item in items:
            turn = self._turns.setdefault(
                item.instance.instance_id,
                _Turn(item.instance, [], 0, asyncio.get_running_loop().create_future()),
            )
            turn.items.append(item)
            turn.left += 1
        self._to_come = deque(self._turns.values())
        """The turn that the walk has reached, and those after it."""
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._coming: dict[str, int] = {}
        """Expected bytes by instance."""
        self._changed = asyncio.Event()

    @asynccontextmanager
    async def __call__(self, item: T) -> AsyncIterator[T]:
        """Yield the item once its image is local, and keep the image during the block.

        If the image is unavailable, `place.problem` says why. Every item enters once, or is
        skipped. With a limit, items have to enter in order, because an item may wait for earlier
        ones to end. An item that was skipped may enter later, and then its image comes next.

        Raises:
            Interrupted: the operator asked to stop.
        """
        turn = self._turns[item.instance.instance_id]
        if item in turn.skipped:
            turn = self._reopened(turn, item)
        turn.is_asked = True
        self._notify()
        try:
            while not turn.ready.done():
                await asyncio.wait({turn.ready}, timeout=STOP_CHECK_S)
                self._stop.check()
            place = turn.ready.result()[turn.items.index(item)]
            yield item.at(place)
        finally:
            self._leave(turn)

    def skip(self, item: T) -> None:
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
                        await self._begin(self._to_come[0], fetches)
                    await self._changed.wait()
        except BaseExceptionGroup as group:
            self._give_up(group.exceptions[0])

    def close(self) -> None:
        """Release all images and abort pulls in progress."""
        self._cache.store.stop()
        for turn in self._turns.values():
            self._release(turn)

    async def _begin(self, turn: _Turn[T], fetches: asyncio.TaskGroup) -> None:
        try:
            if places := await asyncio.to_thread(self._nothing_to_do, turn):
                turn.ready.set_result(places)
                return
            while turn.left and not self._is_due():
                await self._changed.wait()
            if not turn.left:
                return
            self._stop.check()
            await asyncio.to_thread(self._hold, turn)
            if not turn.left:  # its last item has just been skipped
                self._release(turn)
                return
            if (image_id := await asyncio.to_thread(self._here, turn)) is None:
                await self._find_room(turn)
                fetches.create_task(self._fetch(turn))
            else:
                self._arrived(turn, image_id)
        except (ImageError, InfrastructureError) as error:
            self._failed(turn, error)
        finally:
            self._to_come.popleft()

    def _is_due(self) -> bool:
        """Return True if the next image of the walk should be local by now."""
        return self._waiting() < self._ahead or any(one.is_asked for one in self._to_come)

    def _reopened(self, turn: _Turn[T], item: T) -> _Turn[T]:
        """Return the turn of an instance with a skipped item that is wanted now."""
        turn.skipped.remove(item)
        if not turn.left:  # its image was released
            ready = asyncio.get_running_loop().create_future()
            turn = _Turn(turn.instance, turn.items, 0, ready, turn.skipped)
            self._turns[item.instance.instance_id] = turn
            self._to_come.insert(1, turn)
        turn.left += 1
        return turn

    def _leave(self, turn: _Turn[T]) -> None:
        turn.left -= 1
        if not turn.left:
            self._release(turn)

    def _nothing_to_do(self, turn: _Turn[T]) -> list[Place]:
        """Return the places where an instance was done; empty if any work on it is missing."""
        here = self._here(turn)
        places = [self._recorded(item, here) for item in turn.items]
        return [place for place in places if place] if all(places) else []

    async def _find_room(self, turn: _Turn[T]) -> None:
        """Wait until the image fits, or until no other image is in use and waiting is pointless."""
        while True:
            changed = self._changed
            expected = await asyncio.to_thread(self._cache.expected_bytes, turn.instance.image)
            coming = sum(self._coming.values())
            room = await asyncio.to_thread(self._cache.make_room, expected + coming)
            _tell(room)
            in_use = any(other.is_held for other in self._turns.values() if other is not turn)
            if room.is_enough or not in_use:
                self._coming[turn.instance.instance_id] = expected
                return
            await changed.wait()

    async def _fetch(self, turn: _Turn[T]) -> None:
        try:
            async with self._slots:
                fetched: Fetched = await asyncio.to_thread(
                    self._cache.fetch, turn.instance, self._dataset
                )
            if fetched.how:
                say(str(fetched))
            self._arrived(turn, fetched.image_id)
        except (ImageError, InfrastructureError) as error:
            self._failed(turn, error)
        finally:
            del self._coming[turn.instance.instance_id]
            self._notify()

    def _here(self, turn: _Turn[T]) -> str | None:
        return self._cache.store.find([turn.instance.image]).get(turn.instance.image)

    def _hold(self, turn: _Turn[T]) -> None:
        turn.hold.enter_context(self._cache.store.held(turn.instance.image))
        turn.is_held = True

    def _arrived(self, turn: _Turn[T], image_id: str) -> None:
        here = [replace(item.place, image_digest=image_id) for item in turn.items]
        turn.ready.set_result(here)

    def _failed(self, turn: _Turn[T], error: Exception) -> None:
        nowhere = [replace(item.place, problem=str(error)) for item in turn.items]
        turn.ready.set_result(nowhere)

    def _give_up(self, error: BaseException) -> None:
        """Fail all waiting items with the error, because no more images will arrive."""
        for turn in self._turns.values():
            if not turn.ready.done():
                turn.ready.set_exception(error)
                turn.ready.exception()  # mark it as retrieved, even if no cell asks any more

    def _waiting(self) -> int:
        """Return the number of images that are local or on their way but not requested yet."""
        return sum(turn.is_held and not turn.is_asked for turn in self._turns.values())

    def _release(self, turn: _Turn[T]) -> None:
        if turn.is_held:
            try:
                self._cache.needed(turn.instance.image)
            finally:
                turn.hold.close()
                turn.is_held = False
                self._notify()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def _tell(room: EvictionResult) -> None:
    for row in room.removed:
        say(f"image {row['image']}: removed")
