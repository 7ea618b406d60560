"""Write the paired report."""

from typing import Annotated

import typer

from flows.cli.options import LakeOption


def report(
    names: Annotated[
        list[str], typer.Argument(help="experiment; several are compared on common instances")
    ],
    baseline: Annotated[str | None, typer.Option(help="arm to compare with")] = None,
    candidate: Annotated[str | None, typer.Option(help="arm to compare")] = None,
    lake: LakeOption = None,
) -> None:
    """Write the paired report: on the terminal, as Markdown, and as one HTML page."""
    from flows.cli import console
    from flows.storage import report_files
    from flows.storage.lake import Lake

    store = Lake.existing(lake)
    if len(names) == 1:
        built = report_files.read(store, names[0], baseline, candidate)
    else:
        built = report_files.read_several(store, names, baseline, candidate)
    report_files.write(store, built)
    console.report(store, built)
