"""A pipeline that is killed between its steps or while it publishes, and continued."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from flows.jobs import runs
from flows.storage.lake import Lake
from tests.flows.jobs.conftest import NAME, REPAIR, pipeline, step
from tests.operation.running import wait_until
from tests.servers.forge import Forge
from tests.timing import as_variables

pytestmark = [pytest.mark.usefixtures("prefect"), pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = "from flows.cli.app import app; app()"


def begun(lake: str, what: str) -> subprocess.Popen[str]:
    """Start `durabench pipeline run`, as a user does."""
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "pipeline", "run", what, "--lake", lake],
        cwd=ROOT,
        env={
            **os.environ,
            **as_variables(lease_s=10.0),
            "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.full
@pytest.mark.parametrize("where", ["in a step", "while publishing"])
def test_a_killed_run_continues(where: str, forge: Forge, lake_path: str, tmp_path: Path) -> None:
    """After SIGKILL, the id continues the run: each call is bought once, and there is one branch
    with one pull request."""
    marker = tmp_path / "second-step-began"
    waiting = f"test -e {marker} || {{ touch {marker}; sleep 60; }}; echo '# Notes' >NOTES.md"
    if where == "while publishing":
        marker.touch()
    file = tmp_path / "release.yaml"
    declared = pipeline(step("fix", REPAIR), step("notes", waiting, "fix"))
    file.write_text(yaml.safe_dump(declared.model_dump(mode="json")))
    first = begun(lake_path, str(file))

    def kill(request: str = f"POST /api/v3/repos/{NAME}/pulls") -> None:
        if request.startswith(f"POST /api/v3/repos/{NAME}/pulls"):
            os.kill(first.pid, signal.SIGKILL)
            first.wait()

    forge.before_answer = kill
    if where == "in a step":
        wait_until(lambda: marker.exists() or first.poll() is not None)
        kill()
    output, _ = first.communicate()
    assert first.returncode == -signal.SIGKILL, output
    forge.before_answer = lambda request: None
    [row] = runs.read_all(Lake.existing(lake_path))
    second = begun(lake_path, row["job_id"])
    output, _ = second.communicate()
    assert second.returncode == 0, output
    lake = Lake.existing(lake_path)
    assert len(lake.places("attempts", "*")) == 2
    experiments = [f"job-{each['job_id']}" for each in lake.all_shared("jobs") if each["run"]]
    assert [len(lake.rows("llm_calls", name)) for name in experiments] == [1, 1]
    assert len(forge.branches(NAME)) == 2
    [pull] = forge.pulls[NAME]
    assert pull["html_url"] in output
