"""A worker: `python -m tests.durability.survival.worker EXPERIMENT LAKE`."""

import asyncio
import sys
from pathlib import Path

from flows.display.terminal import warn
from flows.experiments import declaration, records
from flows.experiments.keys import attempt_id_of
from flows.experiments.plan import prepare
from flows.storage.journals import open_journal
from tests.durability.survival.solving import solve

FAILED = 3
"""Exit code of a worker that could not end the attempt."""


async def work(experiment: Path, lake_path: str) -> None:
    """Work on the only cell of an experiment, and end its attempt."""
    plan = await prepare(declaration.load(experiment), lake_path)
    cell = plan.cells[0]
    attempt_id = attempt_id_of(cell)
    journal = open_journal(plan.lake)
    journal.start(records.get_journal_attempt(cell, attempt_id))
    await solve(cell, plan.lake, journal, attempt_id)


def main() -> int:
    """Work, and print a failure in one line. Return the exit code."""
    try:
        asyncio.run(work(Path(sys.argv[1]), sys.argv[2]))
    except Exception as error:
        warn(f"{type(error).__name__}: {error}")
        return FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main())
