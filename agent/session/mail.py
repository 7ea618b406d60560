"""The inbox of a running attempt, as its steps read it.

Each reading is recorded as an event named `inbox`. An attempt reads each message once: the events
of its earlier runs say up to which position it has read.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence

from agent.errors import Waiting
from agent.journal import InboxMessage, MessageKind, Wanted
from agent.session.log import StepLog
from agent.session.steps import ActionResult, Step, from_record
from agent.timings import timings

INBOX = "inbox"
"""The name of the events that read messages."""

_READING = f'"event":"{INBOX}"'.encode()


class Mail:
    """The unread messages of one attempt."""

    def __init__(self, log: StepLog, may_go_on: Callable[[], None]) -> None:
        self._log = log
        self._may_go_on = may_go_on
        self._turn = asyncio.Lock()
        """Held during a wait: each message is read by one of them."""
        # Steps that a fork copied have read the inbox of its parent.
        readings = (
            from_record(step).result
            for step in log.recorded
            if step.kind == "event"
            and _READING in step.request
            and step.result is not None
            and not step.copied
        )
        batches = (result.content for result in readings if isinstance(result, ActionResult))
        self._position = max((message["n"] for batch in batches for message in batch), default=0)

    async def unread(self, kinds: Sequence[MessageKind] = ()) -> list[InboxMessage]:
        """Return what can be read at once: all next messages of kind `say`, or one other message.

        With `kinds`, messages from the first one of another kind on stay unread.
        """
        batch: list[InboxMessage] = []
        for message in await self._log.messages(self._position):
            is_other = message.kind != "say"
            if (is_other and batch) or (kinds and message.kind not in kinds):
                break
            batch.append(message)
            if is_other:
                break
        return batch

    def is_up_to_date(self, steps: Iterable[Step]) -> bool:
        """Return True if these steps of the attempt are all that earlier runs recorded."""
        done = {(step.scope, step.seq) for step in steps}
        return all(
            (step.scope, step.seq) in done for step in self._log.recorded if step.result is not None
        )

    async def read(self, batch: list[InboxMessage]) -> list[InboxMessage]:
        """Mark messages as read, and return them."""
        self._position = max([self._position, *(message.n for message in batch)])
        return batch

    async def wait(self, wanted: Wanted, about: str) -> list[InboxMessage]:
        """Wait for the next messages, and mark them as read. Return them.

        Raises:
            Waiting: none came for `Timings.idle_s`.
            Interrupted: the operator asked to stop.
        """
        async with self._turn:
            if batch := await self.unread():
                return await self.read(batch)
            await self._log.begin_wait(wanted, about, self._position)
            until = time.monotonic() + timings().idle_s
            with self._log.listen() as bell:
                while not (batch := await self.unread()):
                    self._may_go_on()
                    if time.monotonic() >= until:
                        raise Waiting.for_a(wanted)
                    await bell.wait(timings().inbox_poll_s)
            return await self.read(batch)
