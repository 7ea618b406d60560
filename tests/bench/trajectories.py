"""Import and comparison of files of other systems, which are made here."""

import json
import random
import sys
from pathlib import Path
from typing import Any

from tests.bench.timing import Bound, measured

DURABENCH = str(Path(sys.executable).with_name("durabench"))
TRAJECTORIES, STEPS, CHARACTERS = 500, 100, 2_000
"""`CHARACTERS` is the length of each message and each result."""
SECONDS = 60.0

JOB = Path(__file__).parents[1] / "flows" / "formats" / "harbor_job"
TRIALS, COMPARE_S, RUNS = 500, 3.0, 3


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


def compare(folder: Path, *, pairs: int) -> list[Bound]:
    """Measure `durabench compare` of two jobs of Harbor, the fastest run. `pairs` is ignored."""
    for name, rate in (("first", 0.45), ("second", 0.5)):
        _write_job(folder / name, rate)
    command = [DURABENCH, "compare", "first", "second", "--lake", str(folder / "l")]
    used = min((measured(command, folder) for _ in range(RUNS)), key=lambda run: run.wall_s)
    title = f"compare two jobs of {TRIALS} trials, the fastest of {RUNS}"
    return [Bound(title, used.wall_s, COMPARE_S, "s", str(used))]


def _write_job(folder: Path, rate: float) -> None:
    """Write a job of copies of one trial that Harbor wrote, with a share of them resolved."""
    drawn = random.Random(folder.name)
    source = next(path for path in sorted(JOB.iterdir()) if path.is_dir())
    trial = json.loads((source / "result.json").read_text())
    for number in range(TRIALS):
        name = f"acme__lib-{number}"
        path = folder / f"{name}__trial"
        path.mkdir(parents=True)
        (path / "config.json").write_bytes((source / "config.json").read_bytes())
        reward = {"rewards": {"reward": float(drawn.random() < rate)}}
        changed = {"id": f"{folder.name} {number}", "task_name": name, "trial_name": path.name}
        (path / "result.json").write_text(
            json.dumps({**trial, **changed, "verifier_result": reward})
        )


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
