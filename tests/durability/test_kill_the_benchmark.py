"""A benchmark that is killed repeatedly has the results of an undisturbed one."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from flows.storage.journals import open_journal
from flows.storage.lake import Lake
from tests.servers import openai_server as api
from tests.servers.prefect_home import copy_home, migrated
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.full,
]

CELLS, AT_ONCE, KILLS = 12, 4, 10
PATIENCE_S = 300

DURABENCH = str(Path(sys.executable).with_name("durabench"))
TURNS = [
    "ls",
    "echo changed >> README.md",
    "sleep 1; git diff -- README.md > patch.txt",
    "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && cat patch.txt",
]


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    """Declare one arm on twelve bundled instances on the host."""
    copy_home("migrated", migrated, tmp_path / "prefect")
    path = tmp_path / "kill.yaml"
    content = {
        "name": "kill",
        "environment": "host",
        "select": {"slice": f"0:{CELLS}"},
        "concurrency": AT_ONCE,
        "arms": [{"name": "mini", "agent": "mini"}],
    }
    path.write_text(yaml.safe_dump({**content, "model": "openai/anything"}))
    return path


def command(experiment: Path, lake: Path, server: api.OpenAIServer) -> list[str]:
    options = ["--lake", str(lake), "--no-grade", "--api-base", server.url]
    return [DURABENCH, "run", str(experiment), "--model", "openai/anything", *options]


def environment(lake: Path) -> dict[str, str]:
    home = str(lake.parent / "prefect")
    return {**os.environ, "OPENAI_API_KEY": "throw-away", "PREFECT_HOME": home}


def start(experiment: Path, lake: Path, server: api.OpenAIServer) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command(experiment, lake, server),
        env=environment(lake),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def exit_code(running: subprocess.Popen[bytes]) -> int:
    """Wait for the end of a benchmark and return its exit code; kill it if it does not end."""
    try:
        return running.wait(timeout=PATIENCE_S)
    finally:
        running.kill()


def results(lake_path: Path) -> dict[str, Any]:
    """Return the results that a report uses, by instance."""
    lake = Lake.existing(lake_path)
    found = {}
    for unit in lake.units("attempts", "*"):
        [attempt] = lake.find("attempts", unit)
        [prediction] = lake.find("predictions", unit)
        found[attempt["instance_id"]] = (
            attempt["outcome"],
            attempt["model_calls"],
            attempt["input_tokens"],
            prediction["model_patch"],
        )
    return found


def test_kills_change_nothing_but_the_bill(experiment: Path, tmp_path: Path) -> None:
    """A repeatedly killed benchmark has the results of an undisturbed one.

    At most the calls in flight at each kill are repeated.
    """
    script = [api.command(turn) for turn in TURNS]
    with api.OpenAIServer(api.by_turn(script), keep_requests=False) as server:
        assert exit_code(start(experiment, tmp_path / "undisturbed", server)) == 0
    rng = random.Random(0)
    asked = 0

    def counted(body: dict[str, Any]) -> api.Reply:
        nonlocal asked
        asked += 1
        return answer(body)

    answer = api.by_turn(script)
    lake = tmp_path / "killed"
    with api.OpenAIServer(counted, keep_requests=False) as server:
        for _ in range(KILLS):
            running = start(experiment, lake, server)
            before = asked
            # The first call must have been sent: a kill during the imports would prove nothing.
            wait_until(lambda: asked > before or running.poll() is not None)  # noqa: B023
            time.sleep(rng.uniform(0, 1.5))
            running.send_signal(signal.SIGKILL)
            running.wait()
        assert exit_code(start(experiment, lake, server)) == 0
    assert results(lake) == results(tmp_path / "undisturbed")
    assert CELLS * len(TURNS) <= asked <= CELLS * len(TURNS) + KILLS * AT_ONCE
    assert asked <= billed(lake) <= CELLS * len(TURNS) + KILLS * AT_ONCE


def billed(lake: Path) -> int:
    """Return the number of calls in the ledger of a lake's journal."""
    journal = open_journal(Lake.existing(lake))
    return sum(journal.account(one.attempt_id).calls_billed for one in journal.find(""))
