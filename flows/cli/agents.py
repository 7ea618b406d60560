"""List, show and check the recipes of programs."""

from typing import Annotated

import typer

from flows.cli.exits import EXIT_GATE
from flows.cli.options import EnvironmentOption
from flows.display.terminal import show, write

agents_app = typer.Typer(
    name="agents", help="List, show and check the recipes of programs.", no_args_is_help=True
)

NameArgument = Annotated[str, typer.Argument(help="name of a recipe, or the path of one")]


@agents_app.command("list")
def agents_list() -> None:
    """List the recipes that are included."""
    from agent.arms.command import recipe

    for name in recipe.list_shipped_recipes():
        content = recipe.load(name)
        show(f"{name:<14} {content.version:<10} {content.dialect:<10} {content.description}")


@agents_app.command("show")
def agents_show(name: NameArgument) -> None:
    """Print a recipe as YAML."""
    import yaml

    from agent.arms.command import recipe

    content = recipe.load(name).model_dump(mode="json", exclude_defaults=True)
    write(yaml.safe_dump(content, sort_keys=False, allow_unicode=True))


@agents_app.command("check")
def agents_check(
    name: NameArgument,
    release: Annotated[
        str | None, typer.Option(help="release to check instead of the recipe's own")
    ] = None,
    environment: EnvironmentOption = None,
) -> None:
    """Run a program on a bundled task with a model that costs nothing. Exit code 1 if it fails."""
    import asyncio

    from flows.experiments import admission

    recipe, gates = asyncio.run(admission.admit(name, environment or "auto", release))
    for gate in gates:
        show(f"{'ok  ' if gate.passed else 'FAIL'}  {gate.name:<14} {gate.detail}")
    if not all(gate.passed for gate in gates):
        raise typer.Exit(EXIT_GATE)
    show(f"{recipe.name} is admitted")
