"""Talk with an attempt: `durabench chat`, `send`, `end`, `approve` and `history`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.options import ApiBaseOption, EnvironmentOption, LakeOption, ModelOption

if TYPE_CHECKING:
    from agent.journal import MessageKind

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
    ref: Annotated[str | None, typer.Option(help="branch, tag or commit to begin at")] = None,
    image: Annotated[str | None, typer.Option(help="image to work in")] = None,
    budget: Annotated[float | None, typer.Option(help="US dollars for the chat")] = None,
    environment: EnvironmentOption = None,
    network: Annotated[
        bool, typer.Option("--network", help="give containers network access")
    ] = False,
    lake: LakeOption = None,
) -> None:
    """Talk with an agent about a repository or an instance, or continue a chat.

    Ctrl-C ends a turn, Ctrl-D leaves the chat, and `/help` lists what else can be typed.
    """
    from flows.display.errors import UsageError
    from flows.jobs.cli import chatting

    if attempt is not None:
        begins = (repo, instance, message, arm, experiment, model, api_base, ref, image, budget)
        if any(each is not None for each in (*begins, environment)) or network:
            raise UsageError("a chat that is continued keeps what it was begun with: leave it out")
        chatting.carry_on(attempt, lake)
        return
    chatting.begin(
        {
            "repo": repo,
            "instance": instance,
            "message": message,
            "dataset": dataset,
            "ref": ref,
            "image": image,
            "budget_usd": budget,
            "environment": environment or "auto",
            "network": network,
        },
        chatting.arm_of(arm, experiment, model, api_base, is_instance=instance is not None),
        lake,
    )


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
    from flows.jobs.cli import sending

    sending.send(attempt, "say", sending.read_text(text), message_id, lake, wait=wait)


def end(
    attempt: _Attempt,
    why: Annotated[str, typer.Argument(help="the reason, for the outcome")] = "",
    wait: _Wait = False,
    message_id: _Id = None,
    lake: LakeOption = None,
) -> None:
    """End an attempt. Its change so far is submitted."""
    from flows.jobs.cli import sending

    sending.send(attempt, "end", why, message_id, lake, wait=wait)


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
    from flows.jobs.cli import sending

    if revise is not None and reject:
        raise UsageError("--revise and --reject exclude each other: give one of them")
    kind: MessageKind = "reject" if reject else "approve" if revise is None else "revise"
    sending.send(attempt, kind, revise or "", message_id, lake, wait=wait)


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
    """Show the runs of an experiment over time, or what was said to an attempt and by it.

    Runs are shown on the terminal, as Markdown and as an HTML page.
    """
    from flows.cli import console
    from flows.display.errors import UsageError
    from flows.jobs.cli import messages
    from flows.storage import report_files
    from flows.storage.lake import Lake

    store = Lake.existing(lake)
    if messages.is_attempt(store, name):
        messages.history(store, name, everything=everything)
        return
    if everything:
        raise UsageError(f"--all goes with the id of an attempt, and there is no attempt {name!r}")
    found = report_files.read_history(store, name)
    report_files.write_history(store, found)
    console.history(store, found)
