"""Write the paired report."""

import gc
from importlib import import_module
from threading import Thread
from typing import Annotated

import typer

from flows.cli.options import LakeOption

_SLOW = ("scipy.special", "jinja2")
"""Libraries that a report needs late."""


def report(
    names: Annotated[
        list[str], typer.Argument(help="experiment; several are compared on common instances")
    ],
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
    from flows.experiments.diagnosis import insights
    from flows.storage import report_files
    from flows.storage.lake import Lake
    from reports.rendering.apart import Apart

    store = Lake.existing(lake)
    if compare and (baseline or candidate):
        raise UsageError("--compare names both arms: leave out --baseline and --candidate")
    if compare and len(names) > 1:
        raise UsageError(
            "--compare takes one experiment: choose the pair of several experiments "
            "by --baseline and --candidate"
        )
    first, second = compare or (baseline, candidate)
    drawing = Apart()
    # These libraries take half a second to import; DuckDB queries run meanwhile.
    ahead = Thread(target=lambda: [import_module(name) for name in _SLOW])
    ahead.start()
    gc.disable()  # nearly all objects live until the end; searching them takes a tenth of the time
    try:
        if len(names) == 1:
            built = report_files.read(
                store, names[0], first, second, alone=compare is not None, early=drawing.begin
            )
        else:
            built = report_files.read_several(store, names, first, second, early=drawing.begin)
        report_files.write(store, built, compare, insights(store), drawing.figures)
        console.report(store, built, compare)
    finally:
        drawing.stop()
        ahead.join()
        gc.enable()
