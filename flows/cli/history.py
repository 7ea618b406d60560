"""Show an experiment over time, or what was said to an attempt."""

from typing import Annotated

import typer

from flows.cli.options import LakeOption


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
    from flows.cli import console, messages
    from flows.errors import UsageError
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
