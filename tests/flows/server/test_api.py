"""The Prefect server of a command: its own, or the configured one."""

import os
import re
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, nullcontext, suppress
from pathlib import Path

import psutil
import pytest
import yaml

from agent.timings import Timings
from flows.server import api
from tests.operation.running import below
from tests.servers.prefect_home import copy_home, migrated
from tests.servers.prefect_server import ROOT

HEARTBEATS = "PREFECT_FLOWS_HEARTBEAT_FREQUENCY"


def test_a_command_sends_heartbeats_as_often_as_a_deployment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Prefect's own interval is as long as the silence after which a flow run counts as dead."""
    definitions = yaml.safe_load((ROOT / "prefect.yaml").read_text())["definitions"]
    every_s = definitions["here"]["job_variables"]["env"][HEARTBEATS]
    assert 6 * float(every_s) == Timings.model_fields["heartbeat_silence_s"].default
    monkeypatch.setenv("PREFECT_LOGGING_LEVEL", "CRITICAL")
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.setattr(api, "_private_server", nullcontext)
    for name in api.VARIABLES:
        monkeypatch.setenv(name, os.environ.get(name, api.VARIABLES[name]))
    monkeypatch.delenv(HEARTBEATS)
    with api.prefect_api():
        assert os.environ[HEARTBEATS] == every_s


def _without_prefect() -> dict[str, str]:
    """Return the environment of a user who has not configured Prefect."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}


_LOST = """
import logging
from contextlib import nullcontext
from flows.server import api
api._private_server = nullcontext
with api.prefect_api():
    from prefect.logging.configuration import setup_logging
    setup_logging()
    logging.getLogger("websockets.client").error("keepalive ping failed")
    logging.getLogger("prefect._internal.concurrency").error("EventsWorker failed")
    logging.getLogger("EventsWorker").warning("Still processing items")
"""


def test_a_lost_connection_is_not_printed() -> None:
    """Prefect's clients connect again when their server was restarted."""
    done = subprocess.run(
        [sys.executable, "-c", _LOST],
        env=_without_prefect(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""


@pytest.mark.full
@pytest.mark.slow
def test_a_command_has_one_server(tmp_path: Path) -> None:
    """A command starts one Prefect server, and the thread that sends run records uses the same
    one. Steps stay in the journal, and a later server of the user registers its types of blocks."""
    program = str(Path(sys.executable).with_name("durabench"))
    copy_home("migrated", migrated, tmp_path / "prefect")
    servers = set()
    with subprocess.Popen(
        [program, "debug", "durabench__quillet-1", "-e", "host", "--lake", str(tmp_path / "lake")],
        env={**_without_prefect(), "PREFECT_HOME": str(tmp_path / "prefect")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as running:
        while running.poll() is None:
            time.sleep(0.2)
            for pid in below(running.pid):
                with suppress(psutil.Error):  # the process has just ended
                    sockets = psutil.Process(pid).net_connections("tcp")
                    servers |= {pid for each in sockets if each.status == psutil.CONN_LISTEN}
        assert running.stdout is not None
        assert (running.returncode, len(servers)) == (0, 1), running.stdout.read()
    with closing(sqlite3.connect(tmp_path / "prefect/prefect.db")) as database:
        logged = [message for (message,) in database.execute("SELECT message FROM log")]
    assert any(" of agent mini with " in message for message in logged)
    assert not any(re.match(r"\d+ +(model|command) ", message) for message in logged)
    assert not (tmp_path / "prefect" / "memo_store.toml").exists()
