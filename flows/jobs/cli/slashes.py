"""The commands that can be typed in a chat, each after a slash."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from agent.journal import MessageKind
from flows.cli import tracing
from flows.display.errors import UsageError
from flows.display.terminal import show
from flows.jobs.chats.mailbox import Mailbox
from flows.jobs.cli import messages
from flows.storage.lake import Lake
from reports.format import plural

Sent = tuple[MessageKind | None, str]
"""The message that a command stands for; None if it stands for none."""

_NOTHING: Sent = None, ""


@dataclass(frozen=True)
class SlashCommand:
    """A command with what follows it."""

    rest: str
    mailbox: Mailbox
    lake: Lake


async def carry_out(line: str, mailbox: Mailbox, lake: Lake) -> Sent:
    """Carry out a command. Return the message that it stands for.

    Raises:
        UsageError: there is no such command.
    """
    name, _, rest = line.partition(" ")
    if name not in _COMMANDS:
        raise UsageError(f"there is no {name}: type one of {', '.join(_COMMANDS)}")
    return await _COMMANDS[name][1](SlashCommand(rest.strip(), mailbox, lake))


async def _history(asked: SlashCommand) -> Sent:
    everything = asked.rest == "--all"
    messages.history(asked.lake, asked.mailbox.attempt_id, everything=everything)
    return _NOTHING


async def _tree(asked: SlashCommand) -> Sent:
    root = str(asked.lake.root)
    tracing.trace(asked.mailbox.attempt_id, root, full=False, follow=False, as_tree=True)
    return _NOTHING


async def _cost(asked: SlashCommand) -> Sent:
    account = asked.mailbox.journal.account(asked.mailbox.attempt_id)
    unknown = f", {account.unpriced_calls} of unknown price" if account.unpriced_calls else ""
    billed = "cost unknown" if account.billed_usd is None else f"${account.billed_usd:,.4f}"
    show(f"{billed} for {plural(account.calls_billed, 'call')}{unknown}")
    return _NOTHING


async def _help(asked: SlashCommand) -> Sent:
    for name, (meaning, _) in _COMMANDS.items():
        show(f"{name:<12} {meaning}")
    show("Ctrl-C ends the turn, Ctrl-D leaves the chat.")
    return _NOTHING


def _message(kind: MessageKind) -> Callable[[SlashCommand], Awaitable[Sent]]:
    async def sent(asked: SlashCommand) -> Sent:
        return kind, asked.rest

    return sent


_COMMANDS: dict[str, tuple[str, Callable[[SlashCommand], Awaitable[Sent]]]] = {
    "/history": ("shows what was said; --all with the results of tools", _history),
    "/tree": ("shows the steps under their scopes", _tree),
    "/cost": ("says what the chat has cost so far", _cost),
    "/approve": ("approves what the agent waits with", _message("approve")),
    "/revise": ("TEXT has it changed first", _message("revise")),
    "/reject": ("rejects it", _message("reject")),
    "/end": ("ends the chat; the change so far is submitted", _message("end")),
    "/help": ("shows this list", _help),
}
