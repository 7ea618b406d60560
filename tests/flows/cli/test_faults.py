"""Effects of faults on an attempt, and the four checks of each."""

import os
import subprocess
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from agent.journal import Account, RecordedStep, Tenure
from agent.models.protocol import ModelReply, Usage
from agent.session.steps import encode
from eval.base_image import BASE_IMAGE
from flows.cli.app import app
from flows.experiments.faults import checking, faults
from flows.experiments.faults.faults import FAULTS, Look, Survived
from flows.experiments.faults.keeping import Worked
from flows.experiments.faults.model_api import Asked, ModelApi
from flows.storage.journals import open_journal
from flows.storage.lake import Lake
from tests.servers.docker_daemon import DockerDaemon
from tests.servers.prefect_server import command_line

SEEN = {
    "worker-killed": ["ended by signal 9", "2 workers on record", "sold 4 answers, 4 of them"],
    "model-away": ["the record says 3 retries", "sold 3 answers, 3 of them different; 3 are"],
    "tool-bug": ["ZeroDivisionError", "3 workers on record", "3 of 3 results from before"],
}
"""Parts of what each fault prints."""

CHECKS = ["stays running", "results persisted", "backoff visible", "no call bought twice"]


def shown(name: str, environment: str, lake_path: str) -> str:
    """Run the demonstration of a fault, and check all that it has to print. Return that."""
    arguments = ["demo", "--fault", name, "--environment", environment, "--lake", lake_path]
    done = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    assert [f"✓ {check}" for check in CHECKS if f"✓ {check}" not in done.stdout] == []
    assert [part for part in SEEN[name] if part not in done.stdout] == []
    return done.stdout


@pytest.mark.slow
@pytest.mark.turn(6)
@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", FAULTS)
def test_an_attempt_survives_a_fault(name: str, tmp_path: Path) -> None:
    """The command keeps the attempt going to its end, and all four checks hold."""
    shown(name, "host", str(tmp_path))


@pytest.mark.slow
@pytest.mark.docker
@pytest.mark.full
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_in_a_container_leaves_none(name: str, tmp_path: Path, docker_client: Any) -> None:
    """All four checks hold in Docker, too, also if the worker of the container is killed."""
    shown(name, "docker", str(tmp_path))
    [attempt] = open_journal(Lake.existing(tmp_path)).find("")
    wanted = {"label": f"durabench.attempt={attempt.attempt_id}"}
    assert docker_client.containers.list(all=True, filters=wanted) == []


@pytest.mark.slow
@pytest.mark.docker
@pytest.mark.full
@pytest.mark.parametrize("demonstrated", [("--fault", "model-away"), ("--scenario", "direct")])
def test_a_missing_image_is_built(demonstrated: tuple[str, str], tmp_path: Path) -> None:
    """A demonstration in Docker needs nothing but the daemon."""
    with DockerDaemon() as daemon:
        daemon.load(BASE_IMAGE)
        done = subprocess.run(
            command_line("durabench", "demo", *demonstrated, "--lake", str(tmp_path)),
            env={**os.environ, "DOCKER_HOST": daemon.url},
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"image {faults.instance().image}: built in" in done.stdout
        client = daemon.client()
        assert client.containers.list(all=True) == []
        client.close()


def test_an_unknown_fault_is_refused(tmp_path: Path) -> None:
    """The message lists the faults, and nothing is written."""
    lake = tmp_path / "lake"
    done = CliRunner().invoke(app, ["demo", "--fault", "none", "--lake", str(lake)])
    assert done.exit_code == 2
    assert "there is no fault 'none': name one of worker-killed, model-away" in done.stderr
    assert not lake.exists()


def step(seq: int, *, retries: int = 0) -> RecordedStep:
    reply = ModelReply({"role": "assistant", "content": "x"}, Usage(), "none", "m", retries=retries)
    now = datetime.now(UTC)
    return RecordedStep("work", seq, "model", "d", b"{}", encode(reply), 0.0, now, 0.0, None)


def worked(began_at: float, ended_at: float, exit_code: int = 0) -> Worked:
    return Worked(began_at, ended_at, exit_code, "")


def survived() -> Survived:
    """Return a demonstration with two workers, in which all checks hold."""
    api = ModelApi([], failures=0)
    api.asked = [Asked(0, 1.0, True), Asked(1, 2.0, True)]
    tenure = Tenure("w", datetime.now(UTC), None, 1, 0)
    return Survived(
        "a" * 32,
        Look(None, [step(0)]),
        Look('{"status": "submitted"}', [step(0), step(1)]),
        [worked(0.0, 1.0, 3), worked(2.5, 3.0)],
        [tenure, tenure],
        Account(0.0, 0.0, 2, 2, 0),
        api,
    )


def broken(shown: Survived) -> list[str]:
    """Return the names of the checks that fail."""
    return [promise.name for promise in checking.promises(shown) if not promise.holds]


def test_the_checks_hold_for_what_they_promise() -> None:
    """An attempt that continued as it should keeps all four promises."""
    assert broken(survived()) == []


def test_each_check_fails_without_what_it_promises() -> None:
    """An end, a changed result, a missing wait and a second sale are seen."""
    good = survived()
    ended = replace(good, during=Look('{"status": "gave_up"}', good.during.steps))
    assert broken(ended) == ["stays running"]
    changed = replace(good, after=Look(good.after.outcome, [step(0, retries=1), step(1)]))
    assert broken(changed) == ["results persisted"]
    at_once = replace(good, workers=[worked(0.0, 1.0, 3), worked(1.1, 3.0)])
    assert broken(at_once) == ["backoff visible"]
    twice = survived()
    twice.api.asked.append(Asked(1, 3.0, True))
    assert broken(twice) == ["no call bought twice"]
    unbilled = replace(good, account=Account(0.0, 0.0, 1, 2, 0))
    assert broken(unbilled) == ["no call bought twice"]


def test_retries_have_to_be_on_record() -> None:
    """Failures of the model API that the record does not show break the promise."""
    good = survived()
    good.api.asked.insert(1, Asked(1, 1.5, False))
    assert broken(good) == ["backoff visible"]
    recorded = [step(0), step(1, retries=1)]
    assert broken(replace(good, after=Look(good.after.outcome, recorded))) == []
