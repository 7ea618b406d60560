"""The start of `durabench run`: from the command to the first request at the model.

Most of it is the import of LiteLLM and Prefect, which is measured alone for comparison.
"""

import statistics
import subprocess
import sys
import time
from pathlib import Path
from threading import Event
from typing import Any

import psutil
import yaml

from tests.bench.timing import Bound, measured
from tests.servers.openai_server import OpenAIServer, Reply, error

LIMIT_S = 2.5
IMPORTS = "import litellm, prefect, prefect.client.orchestration"


def run(folder: Path, *, pairs: int) -> list[Bound]:
    """Measure the wall time until the first request, and its processor time against the imports.

    Raises:
        RuntimeError: a command ended without a request.
    """
    walls, ratios = [], []
    for pair in range(pairs + 1):
        own = folder / str(pair)
        own.mkdir()
        wall_s, cpu_s = _start(own)
        bare = measured([sys.executable, "-c", IMPORTS], own)
        if pair:  # the first command prepares Prefect's folder and Python's cache
            walls.append(wall_s)
            ratios.append(cpu_s / bare.cpu_s)
    detail = f"{min(walls):.1f} to {max(walls):.1f} s"
    title = "start of `durabench run` until the first request"
    return [
        Bound(title, statistics.median(walls), LIMIT_S, "s", detail),
        Bound(
            f"{title}, processor time", statistics.median(ratios), 1.6, "×", f"against {IMPORTS}"
        ),
    ]


def _start(folder: Path) -> tuple[float, float]:
    """Return wall and processor time of a command until its first request."""
    was_asked = Event()

    def answer(body: dict[str, Any]) -> Reply:
        was_asked.set()
        return error(400, "no answer is needed")

    with OpenAIServer(answer) as server:
        experiment = {
            "name": "start",
            "dataset": "bundled",
            "environment": "host",
            "select": {"slice": "0:1"},
            "arms": [{"name": "mini", "agent": "mini"}],
            "model": {"name": "openai/start", "api_base": server.url},
        }
        path = folder / "start.yaml"
        path.write_text(yaml.safe_dump(experiment))
        command = [str(Path(sys.executable).with_name("durabench")), "run", str(path)]
        begun = time.perf_counter()
        with (folder / "output.txt").open("w") as output:
            running = subprocess.Popen(
                [*command, "--lake", str(folder / "lake")], stdout=output, stderr=output
            )
        while not was_asked.wait(0.005):
            if running.poll() is not None:
                raise RuntimeError(f"no request: {(folder / 'output.txt').read_text()[-2000:]}")
        wall_s = time.perf_counter() - begun
        used = psutil.Process(running.pid).cpu_times()
        running.kill()
        running.wait()
    return wall_s, used.user + used.system
