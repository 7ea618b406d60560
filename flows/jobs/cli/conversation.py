"""A chat on the terminal: typed lines go to the inbox, and recorded steps are printed."""

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime

from agent.errors import Interrupted, MessageRefused
from agent.journal import InboxMessage, MessageKind, RecordedStep
from agent.journal.bells import Bell
from agent.session.steps import Step, from_record
from agent.timings import timings
from flows.cli import console, tracing
from flows.cli.running import run_flow
from flows.display.errors import IncompleteRun, UsageError
from flows.display.steps import of_step
from flows.display.terminal import show, write
from flows.experiments.stop import Stop
from flows.jobs.cli import terminal
from flows.jobs.cli.terminal import Prompt
from flows.jobs.mailbox import Mailbox
from flows.server.api import prefect_api
from flows.storage.lake import Lake
from reports.format import plural


def until_answered(mailbox: Mailbox, sent: InboxMessage, lake: Lake) -> None:
    """Continue an attempt in this process until it has answered a message. Print the answer."""
    with prefect_api():
        work = ChatWork(mailbox, lake)

        async def wait() -> None:
            work.start()
            while not terminal.has_answered(mailbox.get_state(), sent) and work.is_running:  # noqa: ASYNC110 - the journal
                await asyncio.sleep(timings().inbox_poll_s)
            work.ask_to_stop()
            await work.end()

        run_flow(wait, needs_litellm=_has_litellm(mailbox))
    terminal.show_standing(mailbox.get_state())


def _has_litellm(mailbox: Mailbox) -> bool:
    model = json.loads(mailbox.attempt.spec)["model"]
    return model is not None and model.get("provider") == "litellm"


def talk(mailbox: Mailbox, lake: Lake, prompt: Prompt) -> None:
    show(f"chat {mailbox.attempt_id}; /help lists what can be typed", "dim")
    with prefect_api():
        try:
            run_flow(lambda: Chat(mailbox, lake, prompt).run(), _has_litellm(mailbox))
        finally:
            if mailbox.get_state().standing != "ended":
                show(f"`durabench chat {mailbox.attempt_id[:12]}` continues it", "dim")


class ChatWork:
    """The flow that continues an attempt in this process, one run after another."""

    def __init__(
        self,
        mailbox: Mailbox,
        lake: Lake,
        show_step: Callable[[Step], None] = lambda step: None,
        show_text: Callable[[str], None] | None = None,
    ) -> None:
        """Let an attempt show its steps, and the texts of its models while they are generated."""
        self._mailbox, self._lake = mailbox, lake
        self._show_step, self._show_text = show_step, show_text
        self._task: asyncio.Task[str] | None = None
        self._stop: Stop | None = None
        self._is_stopping = False

    @property
    def is_running(self) -> bool:
        """True during a run."""
        return self._task is not None and not self._task.done()

    def start(self) -> None:
        """Start a run."""
        from flows.cells.attempts import on_step, on_text
        from flows.jobs.chat import chat, on_stop

        def keep(stop: Stop) -> None:
            self._stop, stop.requested = stop, stop.requested or self._is_stopping

        on_stop.set(keep)
        on_step.set(lambda cell, step: self._show_step(step))
        on_text.set(self._show_text)
        self._stop, self._is_stopping = None, False
        self._task = asyncio.create_task(
            chat(attempt=self._mailbox.attempt_id, lake=str(self._lake.root))
        )

    def ask_to_stop(self) -> None:
        """Start no further call. A call in flight is finished and recorded."""
        self._is_stopping = True
        if self._stop is not None:
            self._stop.requested = True

    def end_turn(self) -> None:
        """Do the same, and cut off the tools and model calls at work."""
        self.ask_to_stop()
        if self._stop is not None:
            self._stop.turn_end.set()

    async def end(self) -> None:
        """Wait for the end of the run, if there is one.

        Raises:
            Exception: what the run raised, unless it was stopped.
        """
        if self._task is not None:
            with suppress(Interrupted):
                await self._task

    def was_stopped(self) -> bool:
        """Return True once after a run that was stopped.

        Raises:
            Exception: what the run raised otherwise.
        """
        if self._task is None or not self._task.done():
            return False
        task, self._task = self._task, None
        try:
            task.result()
        except Interrupted:
            return True
        return False


class Chat:
    """A chat on the terminal."""

    def __init__(self, mailbox: Mailbox, lake: Lake, prompt: Prompt) -> None:
        self._mailbox, self._lake, self._prompt = mailbox, lake, prompt
        self._work = ChatWork(mailbox, lake, self._show_step, self._show_text)
        self._streamed = ""
        """The text of the model call in flight, or of the last one."""
        self._is_in_line = False
        self._shown = {(step.scope, step.seq) for step in self._load_steps()}
        state = mailbox.get_state()
        self._last_wait: tuple[int, datetime] | None = None
        """The wait that was printed last. The history shows an answer, and no question."""
        if state.standing == "waiting" and state.wait is not None and not state.is_asking:
            self._last_wait = state.wait.after, state.wait.since
        self._is_paused = False
        """True after a turn was ended, until the next message."""
        self._asks_to_end = False
        """True after a word such as `exit`, until the next line."""
        self._is_quiet = asyncio.Event()
        """Set while the attempt needs the next message to continue."""

    async def run(self) -> None:
        """Talk until the person leaves or the attempt ends.

        Raises:
            Exception: the work has failed.
        """
        async with self._prompt.printing_above():
            both = [asyncio.create_task(self._work_on()), asyncio.create_task(self._read())]
            try:
                done, _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
            finally:
                for task in both:
                    task.cancel()
                await asyncio.wait(both)
                if self._mailbox.get_state().standing != "ended":
                    self._work.ask_to_stop()
                await self._work.end()

    async def _read(self) -> None:
        """Send what is typed, until the end of the input. Ctrl-C ends the turn."""
        while True:
            if not self._prompt.is_terminal:
                await self._is_quiet.wait()
            try:
                line = await self._prompt.line()
            except KeyboardInterrupt:
                if self._mailbox.get_state().standing == "busy" and self._work.is_running:
                    self._work.end_turn()
                    self._end_line()
                    show("the turn ends; the next message continues", "yellow")
                else:
                    show("Ctrl-D leaves the chat, /end ends it", "dim")
                continue
            if line is None:
                return
            if line.strip():
                self._handle_line(line.strip())

    def _handle_line(self, line: str) -> None:
        """Send a line, or run the command that it names."""
        kind: MessageKind | None = "say"
        asks_to_end, self._asks_to_end = self._asks_to_end, line.lower() in _WORDS_OF_ENDS
        if self._asks_to_end:
            show("End the chat? y ends it, and its change so far is submitted; Ctrl-D leaves it")
            return
        try:
            if asks_to_end and line.lower() in ("y", "yes"):
                line = "/end"
            if line.startswith("/"):
                kind, line = _run_command(line, self._mailbox, self._lake)
            if kind is None:
                return
            state = self._mailbox.get_state()
            self._mailbox.send(kind, line)
        except (MessageRefused, UsageError) as error:
            show(str(error), "red")
            return
        if state.standing == "busy":
            show("[busy] the agent reads it before its next call", "dim")
        self._is_paused = False
        self._is_quiet.clear()

    async def _work_on(self) -> None:
        """Work on the attempt whenever it can continue, and print its messages, until it ends."""
        with Bell(self._mailbox.attempt_id) as bell:
            while not self._look():
                await bell.wait(timings().inbox_poll_s)

    def _look(self) -> bool:
        """Continue the attempt if it can continue, and print its messages. Return True if it has
        ended."""
        state = self._mailbox.get_state()
        if self._mailbox.is_elsewhere(state):
            for step in self._load_steps():
                self._show_step(from_record(step))
        if self._was_stopped():
            self._is_paused = True
            show("the turn has ended", "dim")
        if state.standing == "ended":
            terminal.show_standing(state)
            return True
        if state.standing == "waiting" and state.wait is not None:
            wait = state.wait.after, state.wait.since
            is_new = self._last_wait != wait
            if is_new and (state.is_asking or state.wait.about.strip() != self._streamed.strip()):
                terminal.show_standing(state)
            self._last_wait = wait
        elif state.standing == "open" and not self._work.is_running and not self._is_paused:
            self._work.start()
        if state.standing == "waiting" or (self._is_paused and not self._work.is_running):
            self._is_quiet.set()
        return False

    def _was_stopped(self) -> bool:
        """Return True if a run has stopped. On a terminal, a failed run is tried again later."""
        try:
            return self._work.was_stopped()
        except IncompleteRun as error:
            if not self._prompt.is_terminal:
                raise
            show(f"{error}; the next message tries again", "red")
            return True

    def _load_steps(self) -> list[RecordedStep]:
        steps = self._mailbox.journal.steps(self._mailbox.attempt_id)
        done = (step for step in steps if step.result is not None)
        return sorted(done, key=lambda step: step.ordinal)

    def _show_text(self, text: str) -> None:
        if not self._is_in_line:
            self._streamed, self._is_in_line = "", True
        self._streamed += text
        write(text)

    def _end_line(self) -> None:
        """End the line of the text that was printed while it was generated."""
        if self._is_in_line:
            self._is_in_line = False
            show("")

    def _show_step(self, step: Step) -> None:
        """Print a step that was not shown before."""
        if step.kind == "model":
            self._end_line()
        place = step.scope, step.seq
        if place not in self._shown and step.kind != "event":
            console.step(of_step(step))
        self._shown.add(place)


_WORDS_OF_ENDS = ("quit", "exit", "bye")

_MESSAGES: dict[str, MessageKind] = {
    "/approve": "approve",
    "/revise": "revise",
    "/reject": "reject",
    "/end": "end",
}
_MEANINGS = {
    "/history": "shows the conversation; --all with the results of tools",
    "/tree": "shows the steps under their scopes",
    "/cost": "shows the cost of the chat so far",
    "/approve": "approves what the agent waits with",
    "/revise": "TEXT has it changed first",
    "/reject": "rejects it",
    "/end": "ends the chat; the change so far is submitted",
    "/help": "shows this list",
}
"""The commands of a chat."""


def is_command(line: str) -> bool:
    """Return True for a line that is not a message: a command, or a word such as `exit`."""
    word, _, rest = line.strip().lower().partition(" ")
    return word in _MEANINGS or (word in _WORDS_OF_ENDS and not rest)


def _run_command(line: str, mailbox: Mailbox, lake: Lake) -> tuple[MessageKind | None, str]:
    """Run a command. Return the kind and text of the message that it stands for, if any."""
    name, _, rest = line.partition(" ")
    match name:
        case "/history":
            terminal.show_history(lake, mailbox.attempt_id, everything=rest.strip() == "--all")
        case "/tree":
            where = str(lake.root)
            tracing.trace(mailbox.attempt_id, where, full=False, follow=False, as_tree=True)
        case "/cost":
            account = mailbox.journal.account(mailbox.attempt_id)
            unknown = (
                f", {account.unpriced_calls} of unknown price" if account.unpriced_calls else ""
            )
            billed = "cost unknown" if account.billed_usd is None else f"${account.billed_usd:,.4f}"
            show(f"{billed} for {plural(account.calls_billed, 'call')}{unknown}")
        case "/help":
            for command, meaning in _MEANINGS.items():
                show(f"{command:<12} {meaning}")
            show("Ctrl-C ends the turn, Ctrl-D leaves the chat.")
        case _ if name not in _MESSAGES:
            raise UsageError(f"there is no {name}: type one of {', '.join(_MEANINGS)}")
    return _MESSAGES.get(name), rest.strip()
