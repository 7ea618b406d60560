"""Attempts of earlier versions of an agent. They are kept and reported, and never bought again."""

from collections.abc import Sequence

from agent.arms import ARMS
from flows.errors import UsageError
from flows.experiments.cells import Cell
from flows.experiments.keys import attempt_key
from flows.storage.journals import existing_journal
from flows.storage.lake import Lake


def refuse_outdated(cells: Sequence[Cell], lake: Lake) -> None:
    """Check that no cell was attempted by an earlier version of its agent.

    Raises:
        UsageError: running the cells would buy such attempts again.
    """
    changed = [cell for cell in cells if ARMS[cell.arm.agent].version > 1]
    journal = existing_journal(lake) if changed else None
    if journal is None:
        return
    experiment = changed[0].experiment.name
    known = {progress.attempt.attempt_id for progress in journal.progress(experiment)}
    for cell in changed:
        version = ARMS[cell.arm.agent].version
        if attempt_key(cell)[:32] in known:
            continue
        for earlier in range(1, version):
            if attempt_key(cell, earlier)[:32] in known:
                raise UsageError(
                    f"experiment {experiment!r} has attempts of arm {cell.arm.name!r} by version "
                    f"{earlier} of the {cell.arm.agent} agent, and this is version {version}: "
                    f"`durabench report {experiment}` shows them; to buy the cells again, run the "
                    "experiment under another name"
                )
