"""Write predictions and trajectories."""

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.options import LakeOption


def export(
    name: Annotated[
        str, typer.Argument(help="experiment; with --atif and --inspect also the id of an attempt")
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="folder; default exports/NAME, inside a local lake"),
    ] = None,
    repeat: Annotated[int, typer.Option(help="number of the repeat")] = 0,
    trajectories: Annotated[
        bool,
        typer.Option("--trajectories", help="also write the model calls, for `provider: recorded`"),
    ] = False,
    duckdb: Annotated[
        Path | None,
        typer.Option(help="instead, write every relation of the report to this DuckDB file"),
    ] = None,
    atif: Annotated[
        Path | None,
        typer.Option(help="instead, write ATIF trajectories to this folder, or one to this file"),
    ] = None,
    inspect: Annotated[
        Path | None,
        typer.Option(help="instead, write one log of Inspect, .eval or .json, for its viewer"),
    ] = None,
    lake: LakeOption = None,
) -> None:
    """Write each arm's all_preds.jsonl in the format of `swebench eval`, or another format."""
    from flows.display.terminal import show
    from flows.formats import exports

    if atif or inspect:
        from flows.formats import export

        for path in export.trajectories(name, atif, lake) if atif else ():
            show(f"{path}")
        if inspect:
            show(f"{inspect}: {export.inspect_log(name, inspect, lake)} samples")
        return

    if duckdb:
        for relation, rows in exports.relations(name, duckdb, lake):
            show(f"{relation}: {rows} rows")
        show(f"duckdb {duckdb}")
        return
    if trajectories:
        for path, count in exports.trajectories(name, output, repeat, lake):
            show(f"{path}: {count} calls")
    for path, count in exports.predictions(name, output, repeat, lake):
        show(f"{path}: {count} predictions")
