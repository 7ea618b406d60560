"""Imports and exports of trajectories of 100 steps: 500 ATIF files, and a log of Inspect with 50.

The ATIF files are made here, and the log is the export of what was imported. Only the import of the
ATIF files has a promised maximum.
"""

import json
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.bench.timing import Bound

DURABENCH = Path(sys.executable).with_name("durabench")
TRAJECTORIES, LOGGED, STEPS, CHARACTERS = 500, 50, 100, 2_000
"""`LOGGED` is the number in the log, `CHARACTERS` the length of each message and each result."""
SECONDS = 60.0


def run(folder: Path, *, pairs: int) -> list[Bound]:
    """Measure whole commands once. `pairs` is ignored, since each takes long."""
    files, few = folder / "files", folder / "few"
    for number in range(TRAJECTORIES):
        write(files, number)
    for number in range(LOGGED):
        write(few, number)
    lake, log, out = folder / "lake", folder / "log.eval", folder / "out"
    _durabench(["import", "atif", few, "--name", "few", "--lake", lake])
    return [
        _bound(
            "import atif", TRAJECTORIES, ["import", "atif", files, "--name", "a"], lake, SECONDS
        ),
        _bound("export --atif", TRAJECTORIES, ["export", "a", "--atif", out], lake),
        _bound("export --inspect", LOGGED, ["export", "few", "--inspect", log], lake),
        _bound("import inspect", LOGGED, ["import", "inspect", log, "--name", "b"], lake),
    ]


def write(folder: Path, number: int) -> None:
    """Write one trajectory."""
    folder.mkdir(exist_ok=True)
    (folder / f"made__up-{number}.json").write_text(json.dumps(_trajectory(number)))


def _durabench(argv: Sequence[str | Path]) -> None:
    subprocess.run([DURABENCH, *argv], check=True, stdout=subprocess.DEVNULL)


def _bound(
    what: str, number: int, argv: Sequence[str | Path], lake: Path, limit: float | None = None
) -> Bound:
    title = f"{what}, {number} of {STEPS} steps"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = time.perf_counter()
    _durabench([*argv, "--lake", lake])
    took = time.perf_counter() - begun
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    detail = f"{took:.1f} s of wall time, {after.ru_maxrss / 2**20:.2f} GiB at most so far"
    print(f"  {title}: {cpu:.1f} s of CPU, {detail}", flush=True)
    return Bound(title, cpu, limit, "s of CPU", detail)


def _trajectory(number: int) -> dict[str, Any]:
    text = f"{number} " + "x" * CHARACTERS
    steps: list[dict[str, Any]] = [{"step_id": 1, "source": "user", "message": text}]
    for step in range(2, STEPS + 1):
        call = {
            "tool_call_id": "c",
            "function_name": "bash",
            "arguments": {"command": f"ls {step}"},
        }
        steps.append(
            {
                "step_id": step,
                "source": "agent",
                "message": f"{step} {text}",
                "tool_calls": [call],
                "observation": {"results": [{"source_call_id": "c", "content": f"{text} {step}"}]},
                "metrics": {"prompt_tokens": 900, "completion_tokens": 90, "cost_usd": 0.001},
            }
        )
    return {
        "schema_version": "ATIF-v1.7",
        "agent": {"name": "made-up", "version": "1", "model_name": "made/up"},
        "steps": steps,
    }
