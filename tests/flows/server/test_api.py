"""The private Prefect server of a command."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.operation.running import below

pytestmark = pytest.mark.slow


def test_a_command_has_one_server(tmp_path: Path) -> None:
    """A command starts one Prefect server, and the thread that sends run records uses the same
    one."""
    program = str(Path(sys.executable).with_name("durabench"))
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")
    }
    running = subprocess.Popen(
        [program, "debug", "durabench__quillet-1", "-e", "host", "--lake", str(tmp_path / "lake")],
        env={**environment, "PREFECT_HOME": str(tmp_path / "prefect")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    servers = set()
    while running.poll() is None:
        time.sleep(0.2)
        for pid in below(running.pid):
            command = Path(f"/proc/{pid}/cmdline")
            try:
                if "prefect.server" in command.read_text():
                    servers.add(pid)
            except OSError:  # the process has just ended
                continue
    assert running.stdout is not None
    assert (running.returncode, len(servers)) == (0, 1), running.stdout.read()
