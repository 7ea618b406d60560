"""Scripted attempts show what programs, subagents and faults leave on record."""

import os
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from eval.base_image import BASE_IMAGE
from flows.cli.app import app
from flows.experiments import scenarios
from tests.servers.docker_daemon import DockerDaemon
from tests.servers.prefect_server import command_line

SHOWN = {
    "direct": ["1 tool    read pyproject.toml", "submitted (one file", "files left: notes.txt"],
    "ptc": [
        "run_ptc-1",
        "begin",
        "finished, 6 calls done",
        "files left: part-1.txt, part-2.txt, part-3.txt",
    ],
    "subagents": ["spawn-2", "merge work/spawn-2", "files left: delegated.txt"],
    "nested": ["counter run_ptc", "files left: none"],
    "retry": ["flaky 2  ok at try 3", "submitted (it answered in the end)"],
    "validation": ["invalid 0  refused", "invalid 1  ok"],
    "terminal": ["gave_up (the tool is broken)", "files left: kept.txt"],
    "cancel": ["model calls when it was stopped: 1", "held by ", "made-3.txt"],
}
"""Parts of what each scenario prints."""


def demo(name: str, lake: Path) -> str:
    arguments = ["demo", "--scenario", name, "--environment", "host", "--lake", str(lake)]
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.slow
@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", SHOWN)
def test_a_scenario_prints_its_tree_and_its_files(name: str, tmp_path: Path) -> None:
    """Scopes and steps are a tree, with the end of the attempt and the files that it left."""
    printed = demo(name, tmp_path)
    assert [part for part in SHOWN[name] if part not in printed] == []


@pytest.mark.slow
@pytest.mark.docker
@pytest.mark.full
def test_a_missing_image_is_built(tmp_path: Path) -> None:
    """A scenario in Docker needs nothing but the daemon."""
    with DockerDaemon() as daemon:
        daemon.load(BASE_IMAGE)
        done = subprocess.run(
            command_line("durabench", "demo", "--scenario", "direct", "--lake", str(tmp_path)),
            env={**os.environ, "DOCKER_HOST": daemon.url},
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"image {scenarios.instance().image}: built in" in done.stdout
        client = daemon.client()
        assert client.containers.list(all=True) == []
        client.close()


def test_an_unknown_scenario_is_refused(tmp_path: Path) -> None:
    """The message lists the scenarios."""
    arguments = ["demo", "--scenario", "none", "--lake", str(tmp_path)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert "there is no scenario 'none': name one of direct, ptc, " in result.stderr
