"""Worker processes, forked from a process that has already imported all modules."""

import multiprocessing
import multiprocessing.util
from collections.abc import Callable
from typing import Any

from agent.arms import ArmKind
from tests.durability import crashing
from tests.durability.crashing import Setting

PATIENCE_S = 300

# The folder of all sockets, chosen before tests set a folder for temporary files of their own: the
# path of a socket may have 107 bytes.
multiprocessing.util.get_temp_dir()

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    [
        "tests.agent.arms.loop.test_killed_chat",
        "tests.durability.crashing",
        "tests.durability.pausing",
        "tests.flows.jobs.dying",
        "flows.server.settled",
    ]
)


def run_attempt(
    setting: Setting, environment: str, last: str | None, arm: ArmKind = "mini"
) -> int | None:
    """Run an attempt in a new process, killed at point `last`, and return its exit code."""
    return run(crashing.run, setting, environment, last, arm)


def run(function: Callable[..., object], *arguments: Any) -> int | None:
    """Run a function in a new process, and return its exit code.

    The code is None if the process did not end in time; it is then killed.
    """
    process = FORKS.Process(target=function, args=arguments)
    process.start()
    process.join(timeout=PATIENCE_S)
    exit_code = process.exitcode
    process.kill()
    return exit_code
