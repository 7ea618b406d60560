"""Show what a fault does to an attempt, and check what it must not do."""

import asyncio

from flows.cli import tracing
from flows.display.terminal import show
from flows.errors import GateFailed


def demonstrate(name: str, lake_path: str | None, environment: str | None) -> None:
    """Let faults happen to new attempts, and print their steps and the four checks.

    Raises:
        UsageError: there is no such fault, or the environment is not available.
        ImageError: the image cannot be built.
        GateFailed: a check failed.
    """
    from flows.experiments.faults import checking, faults
    from flows.images import commands

    names = tuple(faults.FAULTS) if name == "all" else (name,)
    faults.check(names)
    commands.provide(faults.instance(), environment, lake_path)
    broken = []
    for each in names:
        shown = asyncio.run(faults.shown(each, lake_path, environment))
        show(f"{each}: {faults.FAULTS[each].tells}", "bold")
        tracing.trace(shown.attempt_id, lake_path, full=False, follow=False)
        for worker in shown.workers:
            if worker.has_failed:
                why = worker.said or f"ended by signal {-worker.exit_code}"
                show(f"a worker failed: {why}", "yellow")
        for promise in checking.promises(shown):
            mark, style = ("✓", "green") if promise.holds else ("✗", "bold red")
            show(f"{mark} {promise.name}: {promise.seen}", style)
            broken += [] if promise.holds else [f"{each}: {promise.name}"]
        show("")
    if broken:
        raise GateFailed(f"not kept: {', '.join(broken)}")
