"""Plan the size of an experiment."""

from typing import Annotated

import typer

from flows.cli.options import LakeOption


def power(
    instances: Annotated[int | None, typer.Option(min=1, help="instances of the plan")] = None,
    repeats: Annotated[int, typer.Option(min=1, max=100, help="attempts per cell, at most")] = 1,
    discordance: Annotated[
        float | None,
        typer.Option(help="share of pairs that one arm alone resolves; default 0.2"),
    ] = None,
    earlier: Annotated[
        str | None, typer.Option("--from", help="experiment to take the discordance from")
    ] = None,
    difference: Annotated[
        float | None,
        typer.Option(help="to find, as 0.05; without it, the smallest that can be found"),
    ] = None,
    chance: Annotated[float, typer.Option("--power", help="chance of finding it")] = 0.8,
    correlation: Annotated[
        float | None, typer.Option(help="of the repeats of an instance, 0 to 1; default 0.5")
    ] = None,
    lake: LakeOption = None,
) -> None:
    """Plan the size of an experiment before it runs.

    Print the instances and repeats that a difference needs, or the smallest difference that they
    can show.
    """
    from flows.experiments import power

    question = power.Question(instances, repeats, difference, chance)
    power.show(question, discordance, earlier, correlation, lake)
