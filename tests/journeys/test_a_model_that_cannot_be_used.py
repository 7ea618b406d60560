"""`durabench run` with a model that cannot be reached or paid."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.servers import openai_server as api


def durabench(
    folder: Path, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run the command as a user does, with the given variables and no other keys of models."""
    inherited = {name: value for name, value in os.environ.items() if "API_KEY" not in name}
    return subprocess.run(
        [sys.executable, "-c", "from flows.cli.app import app; app()", *arguments],
        cwd=folder,
        env={**inherited, "COLUMNS": "200", **environment},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=240,
        check=False,
    )


def declare(folder: Path, model: dict[str, Any], **fields: Any) -> str:
    declared = {
        "name": "x",
        "environment": "host",
        "select": {"sample": 1},
        "arms": [{"name": "a", "agent": "mini", "options": {"step_limit": 1}}],
        "model": model,
        **fields,
    }
    (folder / "x.json").write_text(json.dumps(declared))
    return "x.json"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "fields", "key", "problem"),
    [
        ({"name": "openai/gpt-4o"}, {}, None, "openai/gpt-4o needs OPENAI_API_KEY"),
        pytest.param(
            {"name": "mine"},
            {},
            "key",
            "the model mine names no provider",
            marks=pytest.mark.full,
        ),
        pytest.param(
            {"name": "openai/mine", "api_base": "http://127.0.0.1:9/v1"},
            {"budgets": {"experiment": {"usd": 1}}},
            "key",
            "a budget in USD cannot be kept for openai/mine",
            marks=pytest.mark.full,
        ),
    ],
    ids=["no key", "no provider", "no price"],
)
def test_it_is_found_before_the_first_call(
    tmp_path: Path, model: dict[str, Any], fields: dict[str, Any], key: str | None, problem: str
) -> None:
    """One line names the arm and the remedy, with exit code 2, and no attempt has started."""
    environment = {} if key is None else {"OPENAI_API_KEY": key}
    done = durabench(tmp_path, "run", declare(tmp_path, model, **fields), **environment)
    assert done.returncode == 2
    [line] = [each for each in done.stderr.splitlines() if each.startswith("durabench: ")]
    assert line.startswith(f"durabench: arm a: {problem}")
    assert not (tmp_path / "lake" / "attempts").exists()


@pytest.mark.slow
@pytest.mark.full
def test_a_finished_experiment_needs_no_key(tmp_path: Path) -> None:
    """A private server needs none either. The second run uses the model's provider itself, has
    nothing to buy, and reports."""
    with api.OpenAIServer([api.text("Done.")]) as server:
        own = {"name": "openai/gpt-4o", "api_base": server.url}
        first = durabench(tmp_path, "run", declare(tmp_path, own))
        asked = len(server.requests)
        second = durabench(tmp_path, "run", declare(tmp_path, {"name": "openai/gpt-4o"}))
        assert len(server.requests) == asked > 0
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [["job"], pytest.param(["chat", "--repo"], marks=pytest.mark.full)],
    ids=["job", "chat"],
)
def test_jobs_and_chats_begin_with_no_call_either(tmp_path: Path, command: list[str]) -> None:
    """One line names the key, with exit code 2, before the first turn of an arm."""
    repository = tmp_path / "repository"
    repository.mkdir()
    (repository / "a.py").write_text("x = 1\n")
    as_somebody = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for action in (["init", "-q"], ["add", "."], [*as_somebody, "commit", "-qm", "Begin"]):
        subprocess.run(["git", *action], cwd=repository, check=True)
    said = {
        "chat": ["--message", "Hello"],
        "job": ["Change x", "--arm", "mini", "--verify", "none"],
    }
    options = ["--model", "openai/gpt-4o", "--environment", "host"]
    done = durabench(tmp_path, *command, str(repository), *said[command[0]], *options)
    assert done.returncode == 2, done.stderr
    [line] = [each for each in done.stderr.splitlines() if each.startswith("durabench: ")]
    assert line.endswith("openai/gpt-4o needs OPENAI_API_KEY in the environment")
