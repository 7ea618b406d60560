"""Run the bundled experiment, scripted scenarios, or faults."""

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
    fault: Annotated[
        str | None,
        typer.Option(
            help="in place of the experiment, what a fault does to an attempt: worker-killed, "
            "model-away, tool-bug or all"
        ),
    ] = None,
    lake: LakeOption = None,
    environment: EnvironmentOption = None,
) -> None:
    """Run the bundled experiment: mini, durable, gold and null. No key, no download."""
    from flows.cli import faults, running, tracing
    from flows.errors import UsageError
    from flows.experiments import declaration

    if scenario is not None and fault is not None:
        raise UsageError("--scenario and --fault exclude each other: give one of them")
    if fault is not None:
        faults.demonstrate(fault, lake, environment)
        return
    if scenario is not None:
        tracing.scenarios(scenario, lake, environment)
        return
    declared = declaration.load(declaration.BUILT_IN / "bundled.yaml")
    declared = running.overridden(declared, environment=environment)
    running.benchmark(declared, lake)
