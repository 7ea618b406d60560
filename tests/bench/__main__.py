"""`make bench`: check every measured promise in one run. Exit code 1 if one is not kept."""

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.bench import (
    cells,
    chat,
    durability,
    gateway,
    grading,
    graph,
    growth,
    indexing,
    jobs,
    mini_runner,
    overhead,
    program,
    queue,
    repeats,
    rows,
    scale,
    service,
    trajectories,
)
from tests.bench.timing import Bound, Ratio

BENCHES: dict[str, Callable[..., Sequence[Bound | Ratio]]] = {
    "step": durability.step,
    "resume": durability.resume,
    "mini": mini_runner.run,
    "grading": grading.run,
    "report": scale.run,
    "published": scale.published,
    "files": scale.files,
    "rows": rows.run,
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
    "chat": chat.run,
    "job": jobs.run,
    "service": service.run,
}


def main() -> int:
    """Run the chosen benchmarks and print their figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("which", nargs="*", choices=[*BENCHES, []], help="all of them if left out")
    parser.add_argument("--pairs", type=int, default=3, help="how often each is measured")
    parser.add_argument("--model", help="of chat: a LiteLLM model string; 204 short calls")
    parser.add_argument("--api-base", help="of chat: URL of the model's API")
    arguments = parser.parse_args()
    if (arguments.model or arguments.api_base) and "chat" not in arguments.which:
        parser.error("--model and --api-base are options of chat: name it")
    real = {"model": arguments.model, "api_base": arguments.api_base}
    measured: list[Bound | Ratio] = []
    for name in arguments.which or BENCHES:
        with tempfile.TemporaryDirectory(prefix="durabench-bench-") as folder:
            print(f"{name}:", flush=True)
            options = real if name == "chat" else {}
            measured += BENCHES[name](Path(folder), pairs=arguments.pairs, **options)
    for figure in measured:
        print(figure)
    return 0 if all(figure.holds for figure in measured) else 1


if __name__ == "__main__":
    sys.exit(main())
