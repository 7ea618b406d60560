"""The index of a large repository: SymPy, with its tests.

`DURABENCH_TREES` is a folder with an unpacked source distribution `sympy-1.12`. Without it, nothing
is measured. The definitions of every file are read.
"""

import os
import resource
import subprocess
import sys
import time
from pathlib import Path

from agent.index import SymbolIndex
from agent.index.sources import MAX_FILE_BYTES
from tests.bench.timing import Bound

TREE = "sympy-1.12"

INDEX_S, MEGABYTES = 5.0, 200.0
"""Limits in seconds of processor time, and for the memory of the process."""


def run(folder: Path, *, pairs: int) -> list[Bound]:
    """Return medians and maxima over `pairs` new processes."""
    trees = os.environ.get("DURABENCH_TREES")
    if not trees or not (Path(trees) / TREE).is_dir():
        print(f"  skipped: set DURABENCH_TREES to a folder with {TREE}")
        return []
    command = [sys.executable, "-m", __name__, str(Path(trees) / TREE)]
    runs = []
    for _ in range(pairs):
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        runs.append([float(field) for field in done.stdout.split()])
        print(f"  {done.stdout.strip()}", flush=True)
    seconds, megabytes, files = (sorted(column) for column in zip(*runs, strict=True))
    detail = f"{files[0]:.0f} files of SymPy"
    return [
        Bound("index of all files", seconds[pairs // 2], INDEX_S, "s of CPU", detail),
        Bound("its memory, at most", megabytes[-1], MEGABYTES, "MB", detail),
    ]


def _measure(root: Path) -> None:
    texts = {
        path.relative_to(root).as_posix(): path.read_bytes().decode(errors="replace")
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.stat().st_size <= MAX_FILE_BYTES
    }
    begun = time.process_time()
    index = SymbolIndex(texts)
    for path in index.paths:
        index.list_definitions(path)
    seconds = time.process_time() - begun
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(seconds, megabytes, len(index.paths))


if __name__ == "__main__":
    _measure(Path(sys.argv[1]))
