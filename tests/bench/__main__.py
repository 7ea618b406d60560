"""`make bench`: check every measured promise in one run. Exit code 1 if one is not kept."""

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.bench import (
    cells,
    durability,
    gateway,
    grading,
    graph,
    growth,
    indexing,
    mini_runner,
    overhead,
    program,
    queue,
    repeats,
    scale,
    trajectories,
)
from tests.bench.timing import Bound, Ratio

BENCHES: dict[str, Callable[..., list[Bound] | list[Ratio]]] = {
    "step": durability.step,
    "resume": durability.resume,
    "mini": mini_runner.run,
    "grading": grading.run,
    "report": scale.run,
    "index": indexing.run,
    "overhead": overhead.run,
    "cells": cells.run,
    "growth": growth.run,
    "queue": queue.run,
    "gateway": gateway.run,
    "program": program.run,
    "repeats": repeats.run,
    "trajectories": trajectories.run,
    "graph": graph.run,
}


def main() -> int:
    """Run the chosen benchmarks and print their figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("which", nargs="*", choices=[*BENCHES, []], help="all of them if left out")
    parser.add_argument("--pairs", type=int, default=3, help="how often each is measured")
    arguments = parser.parse_args()
    measured: list[Bound | Ratio] = []
    for name in arguments.which or BENCHES:
        with tempfile.TemporaryDirectory(prefix="durabench-bench-") as folder:
            print(f"{name}:", flush=True)
            measured += BENCHES[name](Path(folder), pairs=arguments.pairs)
    for figure in measured:
        print(figure)
    return 0 if all(figure.holds for figure in measured) else 1


if __name__ == "__main__":
    sys.exit(main())
