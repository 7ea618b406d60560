"""Import results from other systems."""

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.options import DatasetOption, LakeOption, SplitOption

import_app = typer.Typer(help="Import results from other systems.", no_args_is_help=True)


@import_app.command("mini")
def import_mini(
    folder: Annotated[Path, typer.Argument(help="folder with *.traj.json, at any depth")],
    dataset: DatasetOption,
    name: Annotated[str, typer.Option(help="what the results are filed under")],
    arm: Annotated[str, typer.Option(help="name of the arm")] = "mini",
    split: SplitOption = "test",
    lake: LakeOption = None,
) -> None:
    """Import mini-swe-agent trajectories: predictions, calls with tokens and cost, commands."""
    from flows.cli import console
    from flows.imports import mini
    from flows.imports.predictions import PredictionSource

    source = PredictionSource(name, dataset, split)
    console.imported(mini.import_mini(folder, source, arm, lake), name)


@import_app.command("table")
def import_table(
    file: Annotated[
        Path,
        typer.Argument(help="one row per arm and instance: .parquet, .csv, .tsv, .json, .jsonl"),
    ],
    name: Annotated[str, typer.Option(help="what the results are filed under")],
    instance_column: Annotated[
        str | None, typer.Option(help="default instance_id, instance or task_id")
    ] = None,
    arm_column: Annotated[
        str | None, typer.Option(help="default arm, model, agent or system")
    ] = None,
    resolved_column: Annotated[
        str | None, typer.Option(help="true, false, 1 or 0; default resolved or similar")
    ] = None,
    cost_column: Annotated[
        str | None, typer.Option(help="USD, optional; default cost_usd or similar")
    ] = None,
    calls_column: Annotated[
        str | None,
        typer.Option(help="model calls, optional; default api_calls or similar"),
    ] = None,
    lake: LakeOption = None,
) -> None:
    """Import a table of published results. An instance without a row counts as not resolved.

    Importing the same file again, after a correction, replaces the earlier import.
    """
    from flows.cli import console
    from flows.imports import table

    columns = table.Columns(instance_column, arm_column, resolved_column, cost_column, calls_column)
    console.imported_arms(table.import_table(file, name, columns, lake), name)


@import_app.command("swebench")
def import_swebench(
    report: Annotated[
        Path, typer.Argument(help="run report in JSON, or a folder with report.json files")
    ],
    name: Annotated[str, typer.Option(help="what the results are filed under")],
    predictions: Annotated[
        Path | None, typer.Option(help="all_preds.jsonl or preds.json, or a folder that holds it")
    ] = None,
    arm: Annotated[
        str | None, typer.Option(help="name of the arm; default model_name_or_path")
    ] = None,
    lake: LakeOption = None,
) -> None:
    """Import a submission graded by swebench, beside others with the same --name."""
    from flows.cli import console
    from flows.imports import swebench

    done = swebench.import_swebench(report, predictions, name, arm, lake)
    console.imported_arms([done], name)
