"""Import results from other systems."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli.options import LakeOption, SplitOption

if TYPE_CHECKING:
    from flows.formats.attempts import ReadFiles

import_app = typer.Typer(
    name="import", help="Import results from other systems.", no_args_is_help=True
)

NameOption = Annotated[str, typer.Option(help="name for the results")]
ArmOption = Annotated[
    str | None, typer.Option(help="name of the arm; default agent and model of the files")
]


def _declare(
    name: NameOption,
    primary: Annotated[
        str | None,
        typer.Option(help="the primary comparison, as BASELINE:CANDIDATE", metavar="PAIR"),
    ] = None,
    margin: Annotated[
        float | None,
        typer.Option(help="non-inferiority margin (0.05 = five percentage points)"),
    ] = None,
    compare: Annotated[
        list[str] | None,
        typer.Option(help="another declared comparison; repeatable", metavar="PAIR"),
    ] = None,
    lake: LakeOption = None,
) -> dict[str, Any]:
    """Return the target of an import. Every command has these options."""
    from flows.formats import imported_arms

    declared = imported_arms.read_comparisons(primary, margin, compare or [])
    return {"experiment": name, "lake_path": lake, "comparisons": declared}


_SHARED = inspect.signature(_declare).parameters


def _add_command(kind: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the shared options to a function, and register it as a command."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        def command(**options: Any) -> None:
            from flows.cli import console

            shared = {name: options.pop(name) for name in _SHARED}
            console.print_imported_arms(function(_declare(**shared), **options), shared["name"])

        parameters = [*list(inspect.signature(function).parameters.values())[1:], *_SHARED.values()]
        parameters.sort(key=lambda parameter: parameter.default is not parameter.empty)
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__doc__ = function.__doc__
        import_app.command(kind)(command)
        return function

    return add


def _file(files: "ReadFiles", arm: str | None, to: dict[str, Any]) -> Any:
    from flows.formats import filing

    return filing.file(files, arm=arm, **to)


@_add_command("mini")
def import_mini(
    to: dict[str, Any],
    folder: Annotated[Path, typer.Argument(help="folder with *.traj.json, at any depth")],
    dataset: Annotated[
        str | None,
        typer.Option("--dataset", "-d", help="the dataset; default only names of instances"),
    ] = None,
    split: SplitOption = "test",
    arm: Annotated[str, typer.Option(help="name of the arm")] = "mini",
) -> Any:
    """Import mini-swe-agent trajectories: predictions, calls with tokens and cost, commands."""
    from flows.formats import imported_arms, mini
    from flows.formats.predictions import PredictionSource

    imported_arms.check_name(arm, "an arm")
    source = PredictionSource(to["experiment"], dataset, split) if dataset else None
    return _file(mini.read(folder, source), arm, to)


@_add_command("table")
def import_table(
    to: dict[str, Any],
    file: Annotated[
        Path,
        typer.Argument(help="one row per arm and instance: .parquet, .csv, .tsv, .json, .jsonl"),
    ],
    column: Annotated[
        list[str] | None,
        typer.Option(help="name of a column, as instance=ID; repeatable", metavar="KIND=NAME"),
    ] = None,
) -> Any:
    """Import a table of published results, one row per attempt.

    A cell without a row or without a verdict counts as not resolved. Columns of tokens have the
    names input_tokens, cache_read_tokens, cache_write_tokens, output_tokens, reasoning_tokens.
    Importing the same file again, after a correction, replaces the earlier import.
    """
    from flows.formats import table_columns, tables

    return tables.import_table(file, columns=table_columns.read_columns(column or []), **to)


@_add_command("swebench")
def import_swebench(
    to: dict[str, Any],
    report: Annotated[
        Path, typer.Argument(help="run report in JSON, or a folder with report.json files")
    ],
    predictions: Annotated[
        Path | None, typer.Option(help="all_preds.jsonl or preds.json, or a folder that holds it")
    ] = None,
    arm: Annotated[
        str | None, typer.Option(help="name of the arm; default model_name_or_path")
    ] = None,
) -> Any:
    """Import a submission graded by swebench, next to others with the same --name."""
    from flows.formats import swebench

    return _file(swebench.read(report, predictions, arm), arm, to)


@_add_command("atif")
def import_atif(
    to: dict[str, Any],
    paths: Annotated[
        list[Path], typer.Argument(help="trajectories, or folders with them at any depth")
    ],
    arm: ArmOption = None,
) -> Any:
    """Import ATIF trajectories: calls with tokens and cost, tools, subagents.

    The format has neither instances nor verdicts. A free field names the instance, or else the
    file. Several trajectories of an arm at an instance are repeats.
    """
    from flows.formats import atif

    return _file(atif.read(paths), arm, to)


@_add_command("harbor")
def import_harbor(
    to: dict[str, Any],
    folders: Annotated[list[Path], typer.Argument(help="job folders, or folders of jobs")],
    arm: ArmOption = None,
    reward: Annotated[
        str | None, typer.Option(help="the reward that decides, where a task has several")
    ] = None,
) -> Any:
    """Import jobs of Harbor: rewards, costs, tokens and the trajectories of the agents.

    A trial with a reward of 1 is resolved. Several trials of an arm at a task are repeats.
    """
    from flows.formats import harbor

    return _file(harbor.read(folders, reward), arm, to)


@_add_command("inspect")
def import_inspect(
    to: dict[str, Any],
    logs: Annotated[list[Path], typer.Argument(help=".eval or .json logs, or folders of logs")],
    arm: ArmOption = None,
    scorer: Annotated[
        str | None, typer.Option(help="the score that decides, where a sample has several")
    ] = None,
) -> Any:
    """Import logs of Inspect: scores, model calls with tokens and cost, tools.

    A sample with a score of 1 or C is resolved, and epochs are repeats. The package inspect-ai must
    be installed.
    """
    from flows.formats import inspect_import

    return _file(inspect_import.read(logs, scorer), arm, to)
