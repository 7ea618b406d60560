"""The last process of a test run takes only what time the others leave over."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests import spare

ROOT = Path(__file__).parents[1]

TELL = """
import json
import os
import pathlib


def test_where_it_runs(worker_id):
    told = [worker_id, os.getpriority(os.PRIO_PROCESS, 0)]
    pathlib.Path(__file__).with_suffix(".json").write_text(json.dumps(told))
"""


def test_the_last_process_has_low_priority_and_files_from_the_end(tmp_path: Path) -> None:
    """Files without servers are at the end, whatever their names."""
    heavy = [tmp_path / f"tests/{name}/test_it.py" for name in ("flows", "operation")]
    light = [tmp_path / f"tests/{name}/test_it.py" for name in ("agent", "reports")]
    for path in (*heavy, *light):
        path.parent.mkdir(parents=True)
        path.write_text(TELL)
    command = [sys.executable, "-m", "pytest", "-p", "tests.spare", "-n", "2"]
    command += ["--dist", "loadfile", "--no-loadscope-reorder", "--import-mode", "importlib"]
    done = subprocess.run(
        [*command, "--rootdir", str(tmp_path), "tests"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    usual = os.getpriority(os.PRIO_PROCESS, 0)
    for paths, told in ((heavy, ["gw0", usual]), (light, ["gw1", min(19, usual + spare.NICE)])):
        assert [json.loads(path.with_suffix(".json").read_text()) for path in paths] == [told] * 2
