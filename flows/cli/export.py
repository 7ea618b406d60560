"""Write predictions and trajectories."""

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.options import LakeOption


def export(
    name: Annotated[str, typer.Argument(help="experiment")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="folder; default exports/NAME, inside a local lake"),
    ] = None,
    repeat: Annotated[int, typer.Option(help="number of the repeat")] = 0,
    trajectories: Annotated[
        bool,
        typer.Option("--trajectories", help="also write the model calls, for `provider: recorded`"),
    ] = False,
    lake: LakeOption = None,
) -> None:
    """Write each arm's all_preds.jsonl in the format of `swebench eval`."""
    from flows.storage import exports

    if trajectories:
        for path, count in exports.trajectories(name, output, repeat, lake):
            typer.echo(f"{path}: {count} calls")
    for path, count in exports.predictions(name, output, repeat, lake):
        typer.echo(f"{path}: {count} predictions")
