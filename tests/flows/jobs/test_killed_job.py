"""A job that is killed while it publishes, and run again."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from flows.jobs.request import TOKEN
from flows.storage.lake import Lake
from tests.flows.jobs.conftest import NAME, REPAIR, arm
from tests.servers.forge import Forge

pytestmark = [pytest.mark.usefixtures("prefect"), pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = "from flows.cli.app import app; app()"


def begun(lake: str, file: Path) -> subprocess.Popen[str]:
    """Start the command that publishes a pull request, as a user does."""
    options = ["-x", str(file), "--pr", "-e", "host", "--lake", lake]
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "job", NAME, "Add, don't subtract.", *options],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.full
@pytest.mark.parametrize(
    "request_",
    [f"POST /{NAME}.git/git-receive-pack", f"POST /api/v3/repos/{NAME}/pulls"],
)
def test_what_was_done_unheard_is_found(
    request_: str, forge: Forge, lake_path: str, tmp_path: Path
) -> None:
    """SIGKILL after the forge has done something and before it says so: the same command ends with
    one attempt, one branch and one pull request."""
    file = tmp_path / "arms.yaml"
    file.write_text(yaml.safe_dump({"name": "arms", "arms": [arm("repair", REPAIR)]}))
    first = begun(lake_path, file)

    def kill(request: str) -> None:
        if request.startswith(request_):
            os.kill(first.pid, signal.SIGKILL)
            first.wait()

    forge.before_answer = kill
    output, _ = first.communicate()
    assert first.returncode == -signal.SIGKILL, output
    forge.before_answer = lambda request: None
    second = begun(lake_path, file)
    output, _ = second.communicate()
    assert second.returncode == 0, output
    assert len(Lake.existing(lake_path).places("attempts", "*")) == 1
    assert len(forge.branches(NAME)) == 2
    [pull] = forge.pulls[NAME]
    assert pull["html_url"] in output
    assert os.environ[TOKEN] not in output
