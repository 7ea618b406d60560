"""The index and the map of a large repository: Python's standard library.

CPU time is compared with parsing all of the files, so that the result does not depend on the
machine. The map has those parsed that are no tests, which are about half.
"""

import ast
import gc
import resource
import subprocess
import sys
import sysconfig
import time
import warnings
from pathlib import Path

from agent.index import SymbolIndex, covering, draw
from tests.bench.timing import Bound

TASK = "`json.dumps` fails for a `Decimal` in a nested dict, see json/encoder.py and `Fraction`."
MAP_TOKENS = 4000
CHANGED = ["json/encoder.py"]

TIMES_PARSING, MEGABYTES, COVERING_S = 1.2, 275.0, 0.5
"""Limits for the index and the map, for the memory of the process, and for finding tests after
that."""


def run(folder: Path, *, pairs: int) -> list[Bound]:
    """Return medians and maxima over `pairs` new processes."""
    command = [sys.executable, "-m", __name__]
    runs = []
    for _ in range(pairs):
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        runs.append([float(field) for field in done.stdout.split()])
        print(f"  {done.stdout.strip()}", flush=True)
    _, first, found, megabytes, files = (sorted(each) for each in zip(*runs, strict=True))
    middle = pairs // 2
    detail = f"{first[middle]:.1f} s of CPU for {files[0]:.0f} files of Python's library"
    times = sorted(run[1] / run[0] for run in runs)[middle]
    return [
        Bound("index and map, first", times, TIMES_PARSING, "times parsing", detail),
        Bound("their memory, at most", megabytes[-1], MEGABYTES, "MB", detail),
        Bound("tests covering a file", found[middle], COVERING_S, "s of CPU", detail),
    ]


def _measure() -> None:
    texts = _texts()
    begun = time.process_time()
    index = SymbolIndex(texts)
    draw(texts, index, TASK, MAP_TOKENS)
    drawn = time.process_time()
    covering(index, texts, CHANGED)
    found = time.process_time()
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    parsing = _parsing_s(texts)
    print(parsing, drawn - begun, found - drawn, megabytes, len(texts))


def _texts() -> dict[str, str]:
    root = Path(sysconfig.get_path("stdlib"))
    return {
        str(path.relative_to(root)): path.read_bytes().decode(errors="replace")
        for path in sorted(root.rglob("*.py"))
        if "site-packages" not in path.parts
    }


def _parsing_s(texts: dict[str, str]) -> float:
    """Return the CPU seconds of parsing alone."""
    gc.disable()  # each collection would traverse the whole index
    warnings.simplefilter("ignore")
    begun = time.process_time()
    for text in texts.values():
        try:
            ast.parse(text)
        except (SyntaxError, ValueError):  # test data of Python's own parser
            continue
    return time.process_time() - begun


if __name__ == "__main__":
    _measure()
