"""Import results from other systems."""

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.options import DatasetOption, LakeOption, SplitOption

import_app = typer.Typer(
    name="import", help="Import results from other systems.", no_args_is_help=True
)

NameOption = Annotated[str, typer.Option(help="what the results are filed under")]
PrimaryOption = Annotated[
    str | None,
    typer.Option(help="the primary comparison, as BASELINE:CANDIDATE", metavar="PAIR"),
]
MarginOption = Annotated[
    float | None,
    typer.Option(help="largest loss at which its candidate is not worse: 0.05 is five points"),
]
CompareOption = Annotated[
    list[str] | None,
    typer.Option(help="another declared comparison; may be repeated", metavar="PAIR"),
]


@import_app.command("mini")
def import_mini(
    folder: Annotated[Path, typer.Argument(help="folder with *.traj.json, at any depth")],
    dataset: DatasetOption,
    name: NameOption,
    arm: Annotated[str, typer.Option(help="name of the arm")] = "mini",
    split: SplitOption = "test",
    primary: PrimaryOption = None,
    margin: MarginOption = None,
    compare: CompareOption = None,
    lake: LakeOption = None,
) -> None:
    """Import mini-swe-agent trajectories: predictions, calls with tokens and cost, commands."""
    from flows.cli import console
    from flows.formats import comparisons, mini
    from flows.formats.predictions import PredictionSource

    source = PredictionSource(name, dataset, split)
    declared = comparisons.given(primary, margin, compare or [])
    console.imported(mini.import_mini(folder, source, arm, lake, declared), name)


@import_app.command("table")
def import_table(
    file: Annotated[
        Path,
        typer.Argument(help="one row per arm and instance: .parquet, .csv, .tsv, .json, .jsonl"),
    ],
    name: NameOption,
    column: Annotated[
        list[str] | None,
        typer.Option(help="name of a column, as instance=ID; may be repeated", metavar="KIND=NAME"),
    ] = None,
    primary: PrimaryOption = None,
    margin: MarginOption = None,
    compare: CompareOption = None,
    lake: LakeOption = None,
) -> None:
    """Import a table of published results, one row per attempt.

    A cell without a row or without a verdict counts as not resolved. Columns of tokens have the
    names input_tokens, cache_read_tokens, cache_write_tokens, output_tokens, reasoning_tokens.
    Importing the same file again, after a correction, replaces the earlier import.
    """
    from flows.cli import console
    from flows.formats import cells, comparisons, tables

    declared = comparisons.given(primary, margin, compare or [])
    columns = cells.read_columns(column or [])
    console.imported_arms(tables.import_table(file, name, columns, lake, declared), name)


@import_app.command("swebench")
def import_swebench(
    report: Annotated[
        Path, typer.Argument(help="run report in JSON, or a folder with report.json files")
    ],
    name: NameOption,
    predictions: Annotated[
        Path | None, typer.Option(help="all_preds.jsonl or preds.json, or a folder that holds it")
    ] = None,
    arm: Annotated[
        str | None, typer.Option(help="name of the arm; default model_name_or_path")
    ] = None,
    primary: PrimaryOption = None,
    margin: MarginOption = None,
    compare: CompareOption = None,
    lake: LakeOption = None,
) -> None:
    """Import a submission graded by swebench, beside others with the same --name."""
    from flows.cli import console
    from flows.formats import comparisons, swebench

    declared = comparisons.given(primary, margin, compare or [])
    done = swebench.import_swebench(report, predictions, name, arm, lake, declared)
    console.imported_arms([done], name)


ArmOption = Annotated[
    str | None, typer.Option(help="name of the arm; default agent and model, as the files say")
]


@import_app.command("atif")
def import_atif(
    paths: Annotated[
        list[Path], typer.Argument(help="trajectories, or folders with them at any depth")
    ],
    name: NameOption,
    arm: ArmOption = None,
    primary: PrimaryOption = None,
    margin: MarginOption = None,
    compare: CompareOption = None,
    lake: LakeOption = None,
) -> None:
    """Import ATIF trajectories: calls with tokens and cost, tools, subagents.

    The format has neither instances nor verdicts. The instance is named by the free fields of a
    file, or by its name. Several trajectories of an arm at an instance are repeats.
    """
    from flows.cli import console
    from flows.formats import atif, comparisons

    declared = comparisons.given(primary, margin, compare or [])
    console.imported_arms(atif.import_atif(paths, name, arm, lake, declared), name)


@import_app.command("harbor")
def import_harbor(
    folders: Annotated[list[Path], typer.Argument(help="job folders, or folders of jobs")],
    name: NameOption,
    arm: ArmOption = None,
    reward: Annotated[
        str | None, typer.Option(help="the reward that decides, where a task has several")
    ] = None,
    primary: PrimaryOption = None,
    margin: MarginOption = None,
    compare: CompareOption = None,
    lake: LakeOption = None,
) -> None:
    """Import jobs of Harbor: rewards, costs, tokens and the trajectories of the agents.

    A trial with a reward of 1 is resolved. Several trials of an arm at a task are repeats.
    """
    from flows.cli import console
    from flows.formats import comparisons, harbor

    declared = comparisons.given(primary, margin, compare or [])
    done = harbor.import_harbor(folders, name, arm, reward, lake, declared)
    console.imported_arms(done, name)


@import_app.command("inspect")
def import_inspect(
    logs: Annotated[list[Path], typer.Argument(help=".eval or .json logs, or folders of logs")],
    name: NameOption,
    arm: ArmOption = None,
    scorer: Annotated[
        str | None, typer.Option(help="the score that decides, where a sample has several")
    ] = None,
    primary: PrimaryOption = None,
    margin: MarginOption = None,
    compare: CompareOption = None,
    lake: LakeOption = None,
) -> None:
    """Import logs of Inspect: scores, model calls with tokens and cost, tools.

    A sample with a score of 1 or C is resolved, and epochs are repeats. The package inspect-ai has
    to be installed.
    """
    from flows.cli import console
    from flows.formats import comparisons, inspect_logs

    declared = comparisons.given(primary, margin, compare or [])
    done = inspect_logs.import_inspect(logs, name, arm, scorer, lake, declared)
    console.imported_arms(done, name)
