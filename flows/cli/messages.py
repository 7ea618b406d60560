"""Messages to an attempt from the command line, and what was said."""

import asyncio
import sys
from uuid import UUID

from agent.journal import InboxMessage, MessageKind
from agent.timings import timings
from flows.chats import history as chat_history
from flows.chats.history import Remark
from flows.chats.mailbox import Mailbox, Seen
from flows.display.terminal import fitted, out, show
from flows.errors import IncompleteRun
from flows.storage.journals import existing_journal
from flows.storage.lake import Lake
from reports.values import in_line

_STYLES = {"person": "bold cyan", "agent": "bold green", "tool": "dim"}


def given(text: str) -> str:
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
    from flows.server.waking import woken

    flow_run = asyncio.run(woken(mailbox.attempt, sent.n, lake))
    if flow_run is not None:
        show(f"sent; a worker carries it on in flow run {flow_run}")
        if wait:
            asyncio.run(_answered(mailbox, sent, flow_run))
    elif wait:
        from flows.cli import chatting

        chatting.until_answered(mailbox, sent, lake)
    else:
        show(f"sent; no worker has it: `durabench chat {mailbox.attempt_id[:12]}` carries it on")


async def _answered(mailbox: Mailbox, sent: InboxMessage, flow_run: UUID | None) -> None:
    """Wait until an attempt has answered a message, and print the answer.

    Raises:
        IncompleteRun: the flow run that carries it on has failed.
    """
    from flows.server.waking import failure

    while not has_answered(seen := mailbox.seen(), sent):
        if flow_run is not None and (why := await failure(flow_run)):
            raise IncompleteRun(f"flow run {flow_run} ended: {why}")
        await asyncio.sleep(timings().trace_poll_s)
    show_standing(seen)


def has_answered(seen: Seen, sent: InboxMessage) -> bool:
    """Return True if an attempt has read a message, and now waits again or has ended."""
    if seen.standing == "ended":
        return True
    return seen.standing == "waiting" and seen.wait is not None and seen.wait.after >= sent.n


def show_standing(seen: Seen) -> None:
    """Print what an attempt says or asks while it waits, or how it ended."""
    if seen.standing == "ended":
        show(f"[ended] {seen.ending}", "bold")
    elif seen.wait is not None:
        show(seen.wait.about)
        if seen.is_asking:
            show("[approval] it waits for approve, revise or reject", "yellow")


def is_attempt(lake: Lake, name: str) -> bool:
    """Return True if a name is the beginning of an attempt's id, and not that of an experiment."""
    from reports.analysis.history import run_names

    journal = existing_journal(lake)
    with lake.reading():
        is_run = bool(run_names(lake.root, name))
    return not is_run and journal is not None and bool(name) and bool(journal.find(name))


def history(lake: Lake, attempt: str, *, everything: bool) -> None:
    """Print what was said to an attempt and by it, and what it asks a person to approve.

    Raises:
        UsageError: there are several attempts, or its steps were pruned.
    """
    mailbox = Mailbox.of(lake, attempt)
    steps = mailbox.journal.steps(mailbox.attempt_id)
    for remark in chat_history.remarks(steps, mailbox.received()):
        if everything or remark.speaker != "tool":
            show_remark(remark)
    seen = mailbox.seen()
    if seen.is_asking:
        show_standing(seen)
    show(f"[{seen.standing}] {seen.ending}".rstrip(), "bold")


def show_remark(remark: Remark) -> None:
    """Print a remark. One of a tool is one line."""
    clock = f"{remark.at.astimezone():%H:%M:%S} " if remark.at else ""
    unread = " (not read yet)" if remark.is_unread else ""
    style = _STYLES[remark.speaker]
    if remark.speaker == "tool":
        show(fitted(f"{clock}{remark.name}: {in_line(remark.text)}", out().width), style)
        return
    show(f"{clock}{remark.name}{unread}:", style)
    show(remark.text)
