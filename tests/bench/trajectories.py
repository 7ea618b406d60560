"""Import of 500 ATIF trajectories of 100 steps, which are made here."""

import json
import sys
from pathlib import Path
from typing import Any

from tests.bench.timing import Bound, measured

DURABENCH = str(Path(sys.executable).with_name("durabench"))
TRAJECTORIES, STEPS, CHARACTERS = 500, 100, 2_000
"""`CHARACTERS` is the length of each message and each result."""
SECONDS = 60.0


def run(folder: Path, *, pairs: int) -> list[Bound]:
    """Measure the whole command once. `pairs` is ignored, since it takes long."""
    files = folder / "files"
    files.mkdir()
    for number in range(TRAJECTORIES):
        path = files / f"made__up-{number}.json"
        path.write_text(json.dumps(_trajectory(number)))
    command = [DURABENCH, "import", "atif", str(files), "--name", "a", "--lake", str(folder / "l")]
    used = measured(command, folder)
    title = f"import atif, {TRAJECTORIES} of {STEPS} steps"
    return [Bound(title, used.cpu_s, SECONDS, "s of CPU", str(used))]


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
