"""Show an experiment over time."""

from typing import Annotated

import typer

from flows.cli.options import LakeOption


def history(
    name: Annotated[str, typer.Argument(help="experiment, with or without the date of a run")],
    lake: LakeOption = None,
) -> None:
    """Show the runs of an experiment over time: on the terminal, as Markdown, as an HTML page."""
    from flows.cli import console
    from flows.storage import report_files
    from flows.storage.lake import Lake

    store = Lake.existing(lake)
    found = report_files.read_history(store, name)
    report_files.write_history(store, found)
    console.history(store, found)
