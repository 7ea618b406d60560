"""Imports of 500 trajectories of 100 steps: ATIF files, and one log of Inspect.

The ATIF files are made here, and the log is the export of what was imported.
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
TRAJECTORIES, STEPS, CHARACTERS = 500, 100, 2_000
"""`CHARACTERS` is the length of each message and each result."""
SECONDS = 60.0


def run(folder: Path, *, pairs: int) -> list[Bound]:
    """Measure whole commands once. `pairs` is ignored, since each takes long."""
    files = folder / "files"
    files.mkdir()
    for number in range(TRAJECTORIES):
        (files / f"made__up-{number}.json").write_text(json.dumps(_trajectory(number)))
    lake, log = str(folder / "lake"), str(folder / "log.eval")
    size = f"{TRAJECTORIES} of {STEPS} steps"
    return [
        _bound(
            f"import atif, {size}", ["import", "atif", str(files), "--name", "a", "--lake", lake]
        ),
        _bound(
            f"export --atif, {size}", ["export", "a", "--atif", str(folder / "out"), "--lake", lake]
        ),
        _bound(f"export --inspect, {size}", ["export", "a", "--inspect", log, "--lake", lake]),
        _bound(
            f"import inspect, {size}", ["import", "inspect", log, "--name", "b", "--lake", lake]
        ),
    ]


def _bound(title: str, argv: Sequence[str]) -> Bound:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = time.perf_counter()
    subprocess.run([DURABENCH, *argv], check=True, stdout=subprocess.DEVNULL)
    took = time.perf_counter() - begun
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    detail = f"{took:.1f} s of wall time, {after.ru_maxrss / 2**20:.2f} GiB at most so far"
    print(f"  {title}: {cpu:.1f} s of CPU, {detail}", flush=True)
    return Bound(title, cpu, SECONDS, "s of CPU", detail)


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
