"""What was said to an attempt and by it, on the terminal."""

from agent.journal import InboxMessage
from flows.display.terminal import fitted, out, show
from flows.jobs.chats import history as chat_history
from flows.jobs.chats.history import Remark
from flows.jobs.chats.mailbox import Mailbox, Seen
from flows.storage.journals import existing_journal
from flows.storage.lake import Lake
from reports.values import in_line

_STYLES = {"person": "bold cyan", "agent": "bold green", "tool": "dim"}


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
