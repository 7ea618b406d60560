"""`make bench`: check every measured promise in one run. Exit code 1 if one is not kept."""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.bench import (
    cells,
    chat,
    distributed,
    durability,
    gateway,
    grading,
    graph,
    growth,
    indexing,
    jobs,
    mini_runner,
    nights,
    opening,
    overhead,
    paired,
    program,
    queue,
    rows,
    scale,
    service,
    starting,
    tasks,
    testfiles,
    throughput,
    trajectories,
)
from tests.bench.timing import Bound, Ratio

BENCHES: dict[str, Callable[..., Sequence[Bound | Ratio]]] = {
    "step": durability.step,
    "resume": durability.resume,
    "mini": mini_runner.run,
    "opening": opening.run,
    "grading": grading.run,
    "commands": grading.run_rows,
    "report": scale.run,
    "published": scale.published,
    "calls": scale.calls,
    "files": scale.files,
    "rows": rows.run,
    "nights": nights.run,
    "index": indexing.run,
    "overhead": overhead.run,
    "cells": cells.run,
    "distributed": distributed.run,
    "growth": growth.run,
    "queue": queue.run,
    "gateway": gateway.run,
    "program": program.run,
    "paired": paired.run,
    "trajectories": trajectories.run,
    "compare": trajectories.compare,
    "graph": graph.run,
    "chat": chat.run,
    "job": jobs.run,
    "service": service.run,
    "start": starting.run,
    "tasks": tasks.run,
    "testfiles": testfiles.run,
    "throughput": throughput.run,
}


def main() -> int:
    """Run the chosen benchmarks and print their figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("which", nargs="*", choices=[*BENCHES, []], help="all of them if left out")
    parser.add_argument("--pairs", type=int, default=3, help="how often each is measured")
    parser.add_argument("--seed", type=int, default=1, help="of paired")
    parser.add_argument(
        "--designs", nargs="+", type=_design, help="of paired: instances x repeats, such as 15x20"
    )
    arguments = parser.parse_args()
    options: dict[str, dict[str, Any]] = {
        "paired": {"seed": arguments.seed, "designs": arguments.designs or paired.DESIGNS}
    }
    # With it, every program that is started compiles our modules again, but no installed package.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    measured: list[Bound | Ratio] = []
    for name in arguments.which or BENCHES:
        with tempfile.TemporaryDirectory(prefix="durabench-bench-") as folder:
            print(f"{name}:", flush=True)
            extra = options.get(name, {})
            measured += BENCHES[name](Path(folder), pairs=arguments.pairs, **extra)
    for figure in measured:
        print(figure)
    return 0 if all(figure.holds for figure in measured) else 1


def _design(text: str) -> tuple[int, int]:
    """Return instances and repeats."""
    instances, repeats = map(int, text.split("x"))
    return instances, repeats


if __name__ == "__main__":
    sys.exit(main())
