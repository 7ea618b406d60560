"""The temporary folders of Prefect workers that were killed."""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from flows.storage import cleanup

OLD_S = 3600.0


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have a folder of this test take the place of /tmp. Return it."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def of_flow_run(temporary: Path, name: str, *, age_s: float = OLD_S) -> tuple[Path, Path]:
    """Make the two folders of a flow run, as a worker does."""
    attempt = temporary / f"prefect-workspace-attempt-{name}"
    root = temporary / f"tmp{name}prefect"
    attempt.mkdir()
    root.mkdir()
    (root / "cloned.py").touch()
    (attempt / "supervisor.json").write_text(json.dumps({"workspace_root": str(root)}))
    at = time.time() - age_s
    os.utime(attempt, (at, at))
    return attempt, root


def test_folders_without_a_process_are_abandoned(temporary: Path) -> None:
    """Both folders of a dead flow run are removed, and nothing else."""
    gone = of_flow_run(temporary, "aaaaaaaa")
    alive = of_flow_run(temporary, "bbbbbbbb")
    young = of_flow_run(temporary, "cccccccc", age_s=0)
    other = temporary / "tmpddddddddprefect"
    other.mkdir()
    waits = "import sys; print(flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", waits, str(alive[0] / "supervisor.json")]
    running = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert running.stdout is not None
    try:
        running.stdout.readline()  # it runs
        found = cleanup.list_abandoned()
        assert found == list(gone)
        cleanup.remove(found)
        assert set(temporary.iterdir()) == {*alive, *young, other}
        assert cleanup.list_abandoned() == []
    finally:
        running.communicate()
    assert cleanup.list_abandoned() == list(alive)


@pytest.mark.parametrize("elsewhere", ["../precious", "/etc", "src"])
def test_a_folder_that_prefect_did_not_make_stays(temporary: Path, elsewhere: str) -> None:
    """The working folder of a flow run may be that of the operator."""
    attempt, root = of_flow_run(temporary, "aaaaaaaa")
    (temporary / "src").mkdir()
    settings = {"workspace_root": str(temporary / elsewhere)}
    (attempt / "supervisor.json").write_text(json.dumps(settings))
    os.utime(attempt, (0, 0))
    assert cleanup.list_abandoned() == [attempt]
    (attempt / "supervisor.json").write_text("{")
    os.utime(attempt, (0, 0))
    assert cleanup.list_abandoned() == [attempt]
    assert root.is_dir()
