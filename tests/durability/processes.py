"""Processes of their own for workers, forked off one that has imported everything already."""

import multiprocessing

from agent.arms import ArmKind
from tests.durability import crashing
from tests.durability.crashing import Setting

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    ["tests.durability.crashing", "tests.durability.pausing", "tests.durability.spending"]
)


def run_attempt(
    setting: Setting, environment: str, last: str | None, arm: ArmKind = "mini"
) -> int | None:
    """Run an attempt in a process of its own, killed at point `last`; its exit code."""
    process = FORKS.Process(target=crashing.run, args=(setting, environment, last, arm))
    process.start()
    process.join(timeout=120)
    return process.exitcode
