"""One attempt of a derived arm in a process that kills itself at a chosen journal write."""

import asyncio
import functools
import os
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agent.journal import Journal
from eval import instances
from flows.experiments import declaration
from flows.experiments.cells import Cell, Place
from flows.storage.lake import Lake
from tests.durability import crashing

WRITES = ("start", "acquire", "append", "intend", "record", "end")

INSTANCE = "durabench__slotwise-2"


def cell(arm: str) -> Cell:
    """Return the cell of the base arm `lean`, or of `strict`, which has a review more."""
    content = {
        "name": "deriving",
        "environment": "host",
        "model": {"provider": "simulated", "skill": 1, "exploration": 1},
        "arms": [
            {"name": "lean", "agent": "durable"},
            {"name": "strict", "from": "lean", "options": {"profile": {"review": "always"}}},
        ],
    }
    declared = declaration.parse(content, "test")
    [instance] = (each for each in instances.load("bundled") if each.instance_id == INSTANCE)
    return Cell(declared, declared.arm(arm), instance, 0, Place("host"))


def run(lake_path: str, folder: str, arm: str, last: int | None, *, before: bool) -> None:
    """Run the attempt of an arm, and kill this process before or after journal write `last`.

    Workspaces are created in `folder`, whose path is in the conversation. If the attempt ends,
    write the number of its journal writes to the lake.
    """
    writes = 0

    def around(write: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(write)
        def counted(*arguments: Any, **options: Any) -> Any:
            nonlocal writes
            writes += 1
            own = writes
            if before and own == last:
                os.kill(os.getpid(), signal.SIGKILL)
            result = write(*arguments, **options)
            if own == last:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return counted

    tempfile.tempdir = folder
    lake = Lake.open(lake_path)
    for name in WRITES:
        setattr(Journal, name, around(getattr(Journal, name)))
    asyncio.run(crashing.attempt(cell(arm), lake))
    (Path(lake_path) / "writes.txt").write_text(str(writes))
