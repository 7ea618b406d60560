"""Plan the size of an experiment."""

from typing import Annotated

import typer

from flows.cli.options import LakeOption


def power(
    instances: Annotated[int | None, typer.Option(min=1, help="planned instances")] = None,
    repeats: Annotated[
        int, typer.Option(min=1, max=100, help="maximum repeats per arm and instance")
    ] = 1,
    discordance: Annotated[
        float | None,
        typer.Option(help="share of pairs that only one arm resolves; default 0.2"),
    ] = None,
    earlier: Annotated[
        str | None, typer.Option("--from", help="experiment to estimate the discordance from")
    ] = None,
    difference: Annotated[
        float | None,
        typer.Option(
            help="difference to detect, such as 0.05; default the smallest detectable one"
        ),
    ] = None,
    chance: Annotated[
        float, typer.Option("--power", help="probability of detecting the difference")
    ] = 0.8,
    correlation: Annotated[
        float | None, typer.Option(help="between repeats of an instance, 0 to 1; default 0.5")
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
