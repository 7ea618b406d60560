"""Talk with an attempt: `durabench chat`, `send`, `end`, `approve` and `history`."""

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from flows.cli.options import ApiBaseOption, EnvironmentOption, LakeOption, ModelOption

if TYPE_CHECKING:
    from agent.journal import InboxMessage, MessageKind
    from flows.jobs.mailbox import Mailbox

_Attempt = Annotated[str, typer.Argument(help="attempt id, or a prefix of it")]
_Id = Annotated[
    str | None,
    typer.Option("--id", help="id of the message: sent again, it is the same message"),
]
_Wait = Annotated[bool, typer.Option("--wait", "-w", help="wait for the answer, and print it")]


def chat(
    attempt: Annotated[
        str | None, typer.Argument(help="attempt to continue: its id, or a prefix of it")
    ] = None,
    repo: Annotated[
        str | None,
        typer.Option("--repo", "-r", help="address or path of a repository, or owner/name"),
    ] = None,
    instance: Annotated[
        str | None, typer.Option("--instance", "-i", help="instance id, whose issue is the task")
    ] = None,
    message: Annotated[
        str | None, typer.Option("--message", "-m", help="first message; default it is asked for")
    ] = None,
    arm: Annotated[
        str | None,
        typer.Option("--arm", "-a", help="agent, or arm of the file; default an interactive loop"),
    ] = None,
    experiment: Annotated[
        Path | None,
        typer.Option("--experiment", "-x", help="experiment file, for an arm with its options"),
    ] = None,
    model: ModelOption = None,
    api_base: ApiBaseOption = None,
    dataset: Annotated[
        str, typer.Option("--dataset", "-d", help="dataset of the instance")
    ] = "bundled",
    ref: Annotated[str | None, typer.Option(help="branch, tag or commit to start at")] = None,
    image: Annotated[str | None, typer.Option(help="image to work in")] = None,
    budget: Annotated[float | None, typer.Option(help="US dollars for the chat")] = None,
    environment: EnvironmentOption = None,
    network: Annotated[
        bool, typer.Option("--network", help="give containers network access")
    ] = False,
    lake: LakeOption = None,
) -> None:
    """Talk with an agent about a repository, an instance or anything else, or continue a chat.

    Ctrl-C ends a turn, Ctrl-D leaves the chat, and `/help` lists what else can be typed.
    """
    from pydantic import ValidationError

    from flows.display.errors import UsageError
    from flows.experiments.declaration import in_one_line
    from flows.jobs.cli import conversation, terminal
    from flows.jobs.mailbox import Mailbox
    from flows.jobs.talk import Talk, begin_chat
    from flows.storage.lake import Lake

    prompt = terminal.prompt()
    if attempt is not None:
        begins = (repo, instance, message, arm, experiment, model, api_base, ref, image, budget)
        if any(option is not None for option in (*begins, environment)) or network:
            raise UsageError("a chat that is continued keeps its options: leave them out")
        store = Lake.existing(lake)
        mailbox = Mailbox.of(store, attempt)
        state = mailbox.get_state()
        if state.standing == "ended":
            raise UsageError(
                f"[ended] attempt {mailbox.attempt_id} has ended: {state.ending}; "
                f"`durabench history {mailbox.attempt_id[:12]}` shows the conversation"
            )
        terminal.show_history(store, mailbox.attempt_id, everything=False)
        conversation.talk(mailbox, store, prompt)
        return
    content = {
        "repo": repo,
        "instance": instance,
        "message": message,
        "dataset": dataset,
        "ref": ref,
        "image": image,
        "budget_usd": budget,
        "environment": environment or "auto",
        "network": network,
        "arm": _find_arm(arm, experiment, model, api_base, is_instance=instance is not None),
    }
    if instance is None and message is None:
        message = asyncio.run(prompt.line()) or ""
        content["message"] = message
        if conversation.is_command(message):
            raise UsageError("a chat starts with a message: none was sent, and nothing is paid")
    try:
        talk = Talk.model_validate({**content, "message": content["message"] or ""})
    except ValidationError as error:
        raise UsageError(in_one_line(error)) from None
    store = Lake.open(lake)
    attempt_id = asyncio.run(begin_chat(talk, store))
    conversation.talk(Mailbox.of(store, attempt_id), store, prompt)


def send(
    attempt: _Attempt,
    text: Annotated[str, typer.Argument(help="what to say; - reads it from standard input")],
    wait: _Wait = False,
    message_id: _Id = None,
    lake: LakeOption = None,
) -> None:
    """Say something to an attempt. It reads it before its next model call.

    An attempt that waits and has no worker is started again by a worker of the Prefect server, or,
    with --wait and without such a server, by this command.
    """
    text = sys.stdin.read() if text == "-" else text
    _send(attempt, "say", text, message_id, lake, wait=wait)


def end(
    attempt: _Attempt,
    why: Annotated[str, typer.Argument(help="the reason, for the outcome")] = "",
    wait: _Wait = False,
    message_id: _Id = None,
    lake: LakeOption = None,
) -> None:
    """End an attempt. Its change so far is submitted."""
    _send(attempt, "end", why, message_id, lake, wait=wait)


def approve(
    attempt: _Attempt,
    revise: Annotated[
        str | None, typer.Option(help="what to change before it is asked for again")
    ] = None,
    reject: Annotated[bool, typer.Option("--reject", help="reject it, and end the work")] = False,
    wait: _Wait = False,
    message_id: _Id = None,
    lake: LakeOption = None,
) -> None:
    """Approve the plan or the patch that an attempt waits with, have it revised, or reject it.

    The patch of a job is published with `durabench job approve`.
    """
    from flows.display.errors import UsageError

    if revise is not None and reject:
        raise UsageError("--revise and --reject exclude each other: give one of them")
    kind: MessageKind = "reject" if reject else "approve" if revise is None else "revise"
    _send(attempt, kind, revise or "", message_id, lake, wait=wait)


def history(
    name: Annotated[
        str,
        typer.Argument(help="experiment, with or without the date of a run, or an attempt's id"),
    ],
    everything: Annotated[
        bool, typer.Option("--all", help="of an attempt, also what its tools answered")
    ] = False,
    lake: LakeOption = None,
) -> None:
    """Show the runs of an experiment over time, or the conversation of an attempt.

    Runs are shown on the terminal, as Markdown and as an HTML page.
    """
    from flows.cli import console
    from flows.display.errors import UsageError
    from flows.jobs.cli import terminal
    from flows.storage import report_files
    from flows.storage.journals import existing_journal
    from flows.storage.lake import Lake
    from reports.questions.history.analysis import run_names
    from reports.questions.history.section import describe_history

    store = Lake.existing(lake)
    journal = existing_journal(store)
    with store.reading():
        is_run = bool(run_names(store.root, name))
    if not is_run and name and journal is not None and journal.find(name):
        terminal.show_history(store, name, everything=everything)
        return
    if everything:
        raise UsageError(f"--all goes with the id of an attempt, and there is no attempt {name!r}")
    runs = report_files.read_history(store, name)
    document = describe_history(runs)
    report_files.write_history(store, document)
    console.history(store, document)


def _find_arm(
    name: str | None,
    experiment: Path | None,
    model: str | None,
    api_base: str | None,
    *,
    is_instance: bool,
) -> dict[str, Any]:
    """Return the arm of a new chat: of a file, by the name of an agent, or an interactive loop.

    Without a model, a simulated one answers about an instance.
    """
    from flows.cli.declarations import read_model
    from flows.display.errors import UsageError
    from flows.jobs.cli.job import find_arms

    if experiment is not None or name not in (None, "loop"):
        chosen = find_arms([name] if name else None, experiment, model, api_base)[0]
    else:
        spec = read_model(model, api_base)
        chosen = {"name": "loop", "agent": "loop", "model": spec, "options": {"interactive": True}}
    if chosen["model"] is None and is_instance:
        chosen["model"] = {"provider": "simulated", "skill": 1.0}
    if chosen["model"] is None:
        raise UsageError("a chat about a repository needs a model: name one with --model")
    return chosen


def _send(
    attempt: str,
    kind: "MessageKind",
    text: str,
    message_id: str | None,
    lake_path: str | None,
    *,
    wait: bool,
) -> None:
    """Send a message, and have the attempt continued. Print the result."""
    from flows.display.terminal import show
    from flows.jobs.cli import conversation
    from flows.jobs.mailbox import Mailbox
    from flows.storage.lake import Lake

    lake = Lake.existing(lake_path)
    mailbox = Mailbox.of(lake, attempt)
    sent = mailbox.send(kind, text, message_id)
    state, flow_run = mailbox.get_state(), None
    if state.standing == "ended":
        show(f"[ended] {state.ending}")
        return
    if state.holder is not None:
        busy = f"[busy] {state.holder} works on it and reads the message before the next call"
        show(busy if state.standing == "busy" else "sent")
    else:
        from flows.jobs import flow_runs  # imports Prefect, which an attempt at work does not need

        flow_run = asyncio.run(flow_runs.wake(mailbox.attempt, sent.n, lake))
        if flow_run is not None:
            show(f"sent; a worker carries it on in flow run {flow_run}")
        elif wait:
            conversation.until_answered(mailbox, sent, lake)
            return
        else:
            command = f"durabench chat {mailbox.attempt_id[:12]}"
            show(f"sent; no worker has it: `{command}` carries it on")
            return
    if wait:
        asyncio.run(_wait_for_answer(mailbox, sent, flow_run))


async def _wait_for_answer(mailbox: "Mailbox", sent: "InboxMessage", flow_run: UUID | None) -> None:
    """Wait until an attempt has answered a message, and print the answer."""
    from flows.cli import tracing
    from flows.display.errors import IncompleteRun
    from flows.jobs.cli import terminal
    from flows.jobs.flow_runs import read_failure

    while not terminal.has_answered(state := mailbox.get_state(), sent):
        if flow_run is not None and (why := await read_failure(flow_run)):
            raise IncompleteRun(f"flow run {flow_run} ended: {why}")
        await asyncio.sleep(tracing.POLL_S)
    terminal.show_standing(state)
