"""Worker processes, forked from a process that has already imported all modules."""

import multiprocessing

from agent.arms import ArmKind
from tests.durability import crashing
from tests.durability.crashing import Setting

PATIENCE_S = 300

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    ["tests.durability.crashing", "tests.durability.pausing", "tests.durability.spending"]
)


def run_attempt(
    setting: Setting, environment: str, last: str | None, arm: ArmKind = "mini"
) -> int | None:
    """Run an attempt in a new process, killed at point `last`, and return its exit code.

    The code is None if the process did not end in time; it is then killed.
    """
    process = FORKS.Process(target=crashing.run, args=(setting, environment, last, arm))
    process.start()
    process.join(timeout=PATIENCE_S)
    exit_code = process.exitcode
    process.kill()
    return exit_code
