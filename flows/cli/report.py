"""Write the paired report."""

import gc
from importlib import import_module
from threading import Thread
from typing import Annotated

import typer

from flows.cli.options import LakeOption


def report(
    name: Annotated[str, typer.Argument(help="experiment")],
    baseline: Annotated[str | None, typer.Option(help="arm to compare with")] = None,
    candidate: Annotated[str | None, typer.Option(help="arm to compare")] = None,
    compare: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="BASELINE CANDIDATE",
            help="write a page of these two arms only, and leave the page of all arms as it is",
        ),
    ] = None,
    lake: LakeOption = None,
) -> None:
    """Write the paired report: on the terminal, as Markdown, and as one HTML page."""
    from flows.cli import console
    from flows.errors import UsageError
    from flows.storage import report_files
    from flows.storage.lake import Lake

    store = Lake.existing(lake)
    if compare and (baseline or candidate):
        raise UsageError("--compare names both arms: leave out --baseline and --candidate")
    first, second = compare or (baseline, candidate)
    # The figures' library takes half a second to import; DuckDB queries run meanwhile.
    Thread(target=import_module, args=("matplotlib.figure",)).start()
    gc.disable()  # nearly all objects live until the end; searching them takes a tenth of the time
    try:
        built = report_files.read(store, name, first, second, alone=compare is not None)
        report_files.write(store, built, compare)
        console.report(store, built, compare)
    finally:
        gc.enable()
