"""Is the test file that decides a SWE-bench row among those that a gate runs?

For each row, the gold patch is the change, and the files of its failing tests decide. `trees.json`
has the source distributions that stand for the base commits, each the last one before the row,
with the rows whose deciding file it has. `astroid` and `pylint` leave their tests out of theirs;
the original archives of Debian 12 stand for them.

The rows are in the folder of `DURABENCH_SHARED_DATA`, and `DURABENCH_TREES` is one with an unpacked
folder for each name in `trees.json`. Without both, nothing is measured.
"""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb

from agent.checks.running import MOST_COVERING
from agent.index import SymbolIndex, covering, get_changed_names
from agent.models.patches import parse
from tests.bench.timing import Bound

TREES = Path(__file__).with_name("trees.json")
MISSED = 1 / 6
"""The promised maximum of rows whose deciding file is not run."""


def run(folder: Path, *, pairs: int) -> list[Bound]:
    """Count the rows once. `pairs` is ignored, since the count does not vary."""
    data, trees = (os.environ.get(f"DURABENCH_{name}") for name in ("SHARED_DATA", "TREES"))
    if not data or not trees:
        print("  skipped: set DURABENCH_SHARED_DATA and DURABENCH_TREES (tests/bench/testfiles.py)")
        return []
    rows = _rows(Path(data))
    ranks: dict[str, int] = {}
    slowest = 0.0
    for name, instances in json.loads(TREES.read_text()).items():
        texts = dict(_texts(Path(trees) / name))
        index = SymbolIndex(texts)
        for instance in instances:
            begun = time.process_time()
            ranks[instance] = _rank(index, texts, rows[instance])
            slowest = max(slowest, time.process_time() - begun)
    missed = [each for each, rank in ranks.items() if not 0 < rank <= MOST_COVERING]
    first = sum(rank == 1 for rank in ranks.values())
    print(f"  missed: {', '.join(missed)}", flush=True)
    detail = f"of {len(ranks)}; it is the first for {first}; at most {slowest:.1f} s of CPU each"
    title = "rows whose deciding test file is not run"
    return [Bound(title, len(missed), MISSED * len(ranks), "rows", detail)]


def _rank(index: SymbolIndex, texts: dict[str, str], row: dict[str, Any]) -> int:
    """Return the place of the first deciding file, 0 if none is listed."""
    patch = row["patch"]
    changed = {path for file in parse(patch) for path in file.paths}
    found = covering(index, texts, changed, get_changed_names(patch))
    failing = {test.partition("::")[0] for test in json.loads(row["FAIL_TO_PASS"])}
    deciding = failing & texts.keys() or {
        path for file in parse(row["test_patch"]) for path in file.paths
    }
    return min((found.index(path) + 1 for path in deciding if path in found), default=0)


def _rows(data: Path) -> dict[str, dict[str, Any]]:
    files = [str(path) for path in sorted((data / "swebench").glob("*.parquet"))]
    read = "SELECT instance_id, patch, test_patch, FAIL_TO_PASS FROM read_parquet(?)"
    with duckdb.connect() as connection:
        found = connection.execute(read, [files]).fetchall()
    names = ("patch", "test_patch", "FAIL_TO_PASS")
    return {row[0]: dict(zip(names, row[1:], strict=True)) for row in found}


def _texts(root: Path) -> Iterator[tuple[str, str]]:
    """Yield the text files of a tree, as the index of a workspace has them."""
    for path in sorted(root.rglob("*")):
        if path.is_file() and not path.is_symlink() and path.stat().st_size <= 2**20:
            try:
                yield path.relative_to(root).as_posix(), path.read_bytes().decode()
            except UnicodeDecodeError:
                continue
