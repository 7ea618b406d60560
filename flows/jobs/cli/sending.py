"""Messages to an attempt from the command line."""

import asyncio
import sys
from uuid import UUID

from agent.journal import InboxMessage, MessageKind
from flows.cli import tracing
from flows.display.errors import IncompleteRun
from flows.display.terminal import show
from flows.jobs.chats.mailbox import Mailbox
from flows.jobs.cli import chatting, messages
from flows.storage.lake import Lake


def read_text(text: str) -> str:
    """Return the text of a message. `-` stands for standard input."""
    return sys.stdin.read() if text == "-" else text


def send(
    attempt: str,
    kind: MessageKind,
    text: str,
    message_id: str | None,
    lake_path: str | None,
    *,
    wait: bool,
) -> None:
    """Send a message, and have the attempt carried on. Print what becomes of it.

    Raises:
        MessageRefused, UsageError: the attempt or the message does not allow it.
        IncompleteRun: the attempt could not be carried on.
    """
    lake = Lake.existing(lake_path)
    mailbox = Mailbox.of(lake, attempt)
    sent = mailbox.send(kind, text, message_id)
    seen = mailbox.seen()
    if seen.standing == "ended":
        show(f"[ended] {seen.ending}")
    elif seen.holder is not None:
        busy = f"[busy] {seen.holder} works on it and reads the message before the next call"
        show(busy if seen.standing == "busy" else "sent")
        if wait:
            asyncio.run(_answered(mailbox, sent, None))
    else:
        _carry_on(mailbox, sent, lake, wait=wait)


def _carry_on(mailbox: Mailbox, sent: InboxMessage, lake: Lake, *, wait: bool) -> None:
    """Have an attempt without a worker read a message."""
    from flows.jobs.server.waking import woken

    flow_run = asyncio.run(woken(mailbox.attempt, sent.n, lake))
    if flow_run is not None:
        show(f"sent; a worker carries it on in flow run {flow_run}")
        if wait:
            asyncio.run(_answered(mailbox, sent, flow_run))
    elif wait:
        chatting.until_answered(mailbox, sent, lake)
    else:
        show(f"sent; no worker has it: `durabench chat {mailbox.attempt_id[:12]}` carries it on")


async def _answered(mailbox: Mailbox, sent: InboxMessage, flow_run: UUID | None) -> None:
    """Wait until an attempt has answered a message, and print the answer.

    Raises:
        IncompleteRun: the flow run that carries it on has failed.
    """
    from flows.jobs.server.waking import failure

    while not messages.has_answered(seen := mailbox.seen(), sent):
        if flow_run is not None and (why := await failure(flow_run)):
            raise IncompleteRun(f"flow run {flow_run} ended: {why}")
        await asyncio.sleep(tracing.POLL_S)
    messages.show_standing(seen)
