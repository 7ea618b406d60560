"""`make bench`: every measured promise, as a ratio in one run. Exit code 1 if one is broken."""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.bench import grading, mini_runner

BENCHES = {"mini": mini_runner.run, "grading": grading.run}


def main() -> int:
    """Run the chosen benches and print their ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("which", nargs="*", choices=[*BENCHES, []], help="all of them if left out")
    parser.add_argument("--pairs", type=int, default=3, help="runs of each side")
    arguments = parser.parse_args()
    ratios = []
    for name in arguments.which or BENCHES:
        with tempfile.TemporaryDirectory(prefix="durabench-bench-") as folder:
            print(f"{name}:", flush=True)
            ratios.append(BENCHES[name](Path(folder), pairs=arguments.pairs))
    for ratio in ratios:
        print(ratio)
    return 0 if all(ratio.holds for ratio in ratios) else 1


if __name__ == "__main__":
    sys.exit(main())
