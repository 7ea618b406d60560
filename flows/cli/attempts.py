"""Commands that inspect one attempt, or run it with changes."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from flows.cli.options import (
    ApiBaseOption,
    DatasetOption,
    EnvironmentOption,
    FullOption,
    LakeOption,
    ModelOption,
    ResourcesOption,
    SplitOption,
)


def debug(
    context: typer.Context,
    instance: Annotated[str, typer.Argument(help="instance id")],
    arm: Annotated[
        str,
        typer.Option(
            "--arm",
            "-a",
            help="mini, mini_retry, durable, loop, staged, gold, null, a recipe such as "
            "claude-code, or package.module:function; or an arm of the file",
        ),
    ] = "mini",
    experiment: Annotated[
        Path | None,
        typer.Option(
            "--experiment", "-x", help="experiment file, for an arm with its options and budgets"
        ),
    ] = None,
    dataset: DatasetOption = "bundled",
    split: SplitOption = "test",
    model: ModelOption = None,
    api_base: ApiBaseOption = None,
    skill: Annotated[
        float, typer.Option(help="skill of the simulated model, which runs without --model")
    ] = 1.0,
    environment: EnvironmentOption = None,
    resources: ResourcesOption = None,
    lake: LakeOption = None,
    full: FullOption = False,
) -> None:
    """Solve and grade one instance afresh, printing a line for every step."""
    from flows.cli import declarations, running
    from flows.display.errors import UsageError
    from flows.experiments import declaration, plan
    from flows.experiments.arms import make_arm, needs_model
    from flows.experiments.resources import Resources

    if experiment is not None:
        for name in ("dataset", "split", "skill"):
            source = context.get_parameter_source(name)
            if source is not None and source.name == "COMMANDLINE":
                raise UsageError(f"--{name} does not go with --experiment: the file has it")
        declared = declarations.override(
            declaration.load(experiment),
            model=model,
            api_base=api_base,
            environment=environment,
            resources=resources,
        )
        declared = plan.only(declared, arm, instance).model_copy(update={"name": "debug"})
    else:
        simulated = {"provider": "simulated", "skill": skill}
        spec = declarations.read_model(model, api_base) or simulated
        chosen = make_arm(arm)
        content = {
            "name": "debug",
            "dataset": dataset,
            "split": split,
            "select": {"ids": [instance]},
            "environment": environment or "auto",
            "resources": Resources.parse(resources).model_dump(),
            "arms": [{**chosen, "model": spec if needs_model(chosen["agent"]) else None}],
        }
        arm = chosen["name"]
        declared = declaration.parse(content, "command line")
    running.debug(declared, instance, arm, lake, full=full)


def trace(
    attempt: Annotated[str, typer.Argument(help="attempt id, or a prefix of it")],
    full: FullOption = False,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="follow until the attempt ends")
    ] = False,
    tree: Annotated[bool, typer.Option("--tree", help="show the steps under their scopes")] = False,
    report: Annotated[
        bool, typer.Option("--report", help="show only the report that the arm has left")
    ] = False,
    lake: LakeOption = None,
) -> None:
    """Show the steps of an attempt with their cost, one per line, even while it is running."""
    from flows.cli import tracing
    from flows.display.errors import UsageError

    if tree and (follow or full):
        raise UsageError("--tree cannot be combined with --follow or --full")
    if report and (tree or follow or full):
        raise UsageError("--report goes alone")
    tracing.trace(attempt, lake, full=full, follow=follow, as_tree=tree, only_report=report)


def graph(
    attempt: Annotated[str, typer.Argument(help="attempt id, or a prefix of it")],
    format_: Annotated[
        Literal["tree", "mermaid", "json"], typer.Option("--format", help="how to show it")
    ] = "tree",
    stale_if: Annotated[
        list[str] | None,
        typer.Option(help="mark steps that depend on role=…, prompt=…, option=… or step=…"),
    ] = None,
    lake: LakeOption = None,
) -> None:
    """Show the dependencies between an attempt's steps, and the steps that a change makes stale."""
    from flows.cli import tracing

    tracing.show_graph(attempt, format_, stale_if or [], lake)


def diagnose(
    attempt: Annotated[str, typer.Argument(help="attempt id, or a prefix of it")],
    lake: LakeOption = None,
) -> None:
    """Show the origin of an attempt's lines, the checks that passed them, and a fork to try."""
    from flows.cli import tracing

    tracing.show_diagnosis(attempt, lake)


def fork(
    attempt: Annotated[str, typer.Argument(help="attempt id, or a prefix of it")],
    at: Annotated[
        str | None, typer.Option(help="first step to run again, as shown by trace")
    ] = None,
    change: Annotated[
        Path | None,
        typer.Option(help="YAML file with the `model` and options that change"),
    ] = None,
    edit: Annotated[
        list[str] | None,
        typer.Option(help="STEP=FILE: replace the answer of a step by the content of a file"),
    ] = None,
    never: Annotated[
        list[str] | None,
        typer.Option(help="regular expression of commands to always run again"),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="only print the reused steps and the new costs")
    ] = False,
    model: ModelOption = None,
    api_base: ApiBaseOption = None,
    options: Annotated[
        Path | None,
        typer.Option(help="YAML file with changed options of the arm, such as `profile`"),
    ] = None,
    lake: LakeOption = None,
) -> None:
    """Fork an attempt at a step, or with a change, and reuse the steps that do not depend on it.

    With --at, earlier steps are kept and all others are run again. With --change or --edit, the
    agent starts from the top, and every step with the same inputs is reused.
    """
    from flows.cli import running
    from flows.display.errors import UsageError

    if at is not None:
        if change or edit or never:
            raise UsageError("--at goes without --change, --edit and --never")
        running.fork_at_step(attempt, at, model, api_base, options, lake, dry_run=dry_run)
        return
    if model or api_base or options:
        raise UsageError("--model, --api-base and --options go with --at; put them into --change")
    if not (change or edit or never):
        raise UsageError("name a step to fork at (--at) or a change (--change, --edit)")
    running.fork_with_change(attempt, change, edit or [], never or [], lake, dry_run=dry_run)
