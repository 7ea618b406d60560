"""Run the bundled experiment, or scripted scenarios."""

from typing import Annotated

import typer

from flows.cli.options import EnvironmentOption, LakeOption


def demo(
    scenario: Annotated[
        str | None,
        typer.Option(
            help="in place of the experiment, a scripted attempt with programs, subagents or "
            "faults: direct, ptc, subagents, nested, retry, validation, terminal, cancel or all"
        ),
    ] = None,
    lake: LakeOption = None,
    environment: EnvironmentOption = None,
) -> None:
    """Run the bundled experiment: mini, durable, gold and null. No key, no download."""
    from flows.cli import running, tracing
    from flows.experiments import declaration

    if scenario is not None:
        tracing.scenarios(scenario, lake, environment)
        return
    declared = declaration.load(declaration.BUILT_IN / "bundled.yaml")
    declared = running.overridden(declared, environment=environment)
    running.benchmark(declared, lake)
