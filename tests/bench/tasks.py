"""Reading a large dataset of tasks, and the candidates of a long history."""

import json
import subprocess
import sys
from pathlib import Path

from tests.bench.timing import Bound, measured

ROWS, READ_S, READ_GIBIBYTES = 32_000, 5.0, 0.5
COMMITS, MODULES, LISTED_S = 5_000, 300, 20.0

READ = """
import sys
from eval.instances import load
assert len(load(sys.argv[1])) == int(sys.argv[2])
"""
LIST = """
import sys
from pathlib import Path
from agent.testfiles import read_test_files
from eval.git import git
from eval.repositories import CommitFiles
from flows.jobs.mining.candidates import find_candidate, read_changes
git(Path("."), "clone", "--quiet", "--mirror", sys.argv[1], "mirror")
mirror = Path("mirror")
files = CommitFiles(mirror, git(mirror, "rev-parse", "HEAD").strip())
tests = read_test_files(files.paths, files.text)
found = [find_candidate(change, tests) for change in read_changes(mirror, None)]
assert sum(each is not None for each in found) == int(sys.argv[2])
"""


def run(folder: Path, *, pairs: int) -> list[Bound]:
    """Measure both once. `pairs` is ignored, since each takes long."""
    rows, history = folder / "rows.jsonl", folder / "history"
    _write_rows(rows)
    _write_history(history)
    read = measured([sys.executable, "-c", READ, str(rows), str(ROWS)], folder)
    listed = measured([sys.executable, "-c", LIST, str(history), str(COMMITS // 2)], folder)
    number, size = f"{ROWS:,} rows", f"{rows.stat().st_size / 2**20:.0f} MiB"
    return [
        Bound("reading rows of tasks", read.wall_s, READ_S, "s", f"{number}, {size}"),
        Bound("its memory", read.gibibytes, READ_GIBIBYTES, "GiB", number),
        Bound("candidates of a history", listed.wall_s, LISTED_S, "s", f"{COMMITS:,} commits"),
    ]


def _write_rows(path: Path) -> None:
    """Write rows in the shape of SWE-rebench V2."""
    patch = "".join(f"+line {number} of a change\n" for number in range(60))
    with path.open("w") as file:
        for number in range(ROWS):
            row = {
                "instance_id": f"owner__name-{number}",
                "repo": "owner/name",
                "base_commit": f"{number:040x}",
                "problem_statement": f"Problem {number}. " * 60,
                "patch": f"diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n{patch}",
                "test_patch": f"diff --git a/t.py b/t.py\n--- a/t.py\n+++ b/t.py\n{patch}",
                "image_name": "image",
                "install_config": {"test_cmd": ["make"], "log_parser": "parse_log_gotest"},
                "FAIL_TO_PASS": [f"Test{each}" for each in range(5)],
                "PASS_TO_PASS": [f"TestOld{each}" for each in range(40)],
            }
            file.write(f"{json.dumps(row)}\n")


def _write_history(folder: Path) -> None:
    """Write commits with code, every second with tests, in one stream for git."""
    subprocess.run(["git", "init", "--quiet", "-b", "main", str(folder)], check=True)
    lines: list[str] = []
    for number in range(COMMITS):
        module = number % MODULES
        files = {f"src/mod{module}.py": f"def f():\n    return {number}\n" * 60}
        if number % 2:
            files[f"tests/test_mod{module}.py"] = f"def test():\n    assert {number}\n" * 40
        message = f"Change {number} (#{number})"
        lines += [
            f"commit refs/heads/main\nmark :{number + 1}",
            f"committer A <a@example.org> {1_700_000_000 + 60 * number} +0000",
            f"data {len(message)}\n{message}",
            *([f"from :{number}"] if number else []),
            *(f"M 100644 inline {path}\ndata {len(t)}\n{t}" for path, t in files.items()),
        ]
    stream = "\n".join([*lines, ""])
    subprocess.run(["git", "fast-import", "--quiet"], input=stream.encode(), cwd=folder, check=True)
