"""Run the bundled experiment."""

from flows.cli.options import EnvironmentOption, LakeOption


def demo(lake: LakeOption = None, environment: EnvironmentOption = None) -> None:
    """Run the bundled experiment: mini, durable, gold and null. No key, no download."""
    from flows.cli import running
    from flows.experiments import declaration

    declared = declaration.load(declaration.BUILT_IN / "bundled.yaml")
    declared = running.overridden(declared, environment=environment)
    running.benchmark(declared, lake)
