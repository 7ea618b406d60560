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
    lake: LakeOption = None,
) -> None:
    """Write the paired report: on the terminal, as Markdown, and as one HTML page."""
    from flows.cli import console
    from flows.storage import report_files
    from flows.storage.lake import Lake

    store = Lake.existing(lake)
    # The figures' library takes half a second to import; DuckDB queries run meanwhile.
    Thread(target=import_module, args=("matplotlib.figure",)).start()
    gc.disable()  # nearly all objects live until the end; searching them takes a tenth of the time
    try:
        built = report_files.read(store, name, baseline, candidate)
        report_files.write(store, built)
        console.report(store, built)
    finally:
        gc.enable()
