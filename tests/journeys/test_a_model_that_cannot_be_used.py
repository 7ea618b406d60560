"""`durabench run` with a model that cannot be reached or paid."""

import json
import signal
import subprocess
from typing import Any

import pytest

from tests.journeys.command_line import PROGRAM, Terminal
from tests.servers import openai_server as api
from tests.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

DEAD = "http://127.0.0.1:9/v1"


def declare(terminal: Terminal, model: dict[str, Any], **fields: Any) -> str:
    declared = {
        "name": "x",
        "environment": "host",
        "select": {"sample": 1},
        "arms": [{"name": "a", "agent": "mini", "options": {"step_limit": 1}}],
        "model": model,
        **fields,
    }
    return terminal.write("x.yaml", declared)


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
        ({"name": "openai/mine", "api_base": DEAD}, {}, None, "openai/mine cannot be reached: 127"),
        pytest.param(
            {"name": "openai/mine", "extra": {"base_url": DEAD}},
            {"budgets": {"experiment": {"usd": 1}}, "dataset": "nowhere.json"},
            None,
            "nowhere.json: there is no such file or folder",
            marks=pytest.mark.full,
        ),
    ],
    ids=["no key", "no provider", "no server", "nothing at all"],
)
def test_it_is_found_before_the_first_call(
    terminal: Terminal, model: dict[str, Any], fields: dict[str, Any], key: str | None, problem: str
) -> None:
    """A line for each mistake names the arm and the remedy, with exit code 2. Nothing started."""
    terminal.variables.update({} if key is None else {"OPENAI_API_KEY": key})
    done = terminal.attempt("run", declare(terminal, model, **fields))
    assert done.returncode == 2
    lines = done.stderr.splitlines()
    assert lines[0].removeprefix("durabench: ").removeprefix("arm a: ").startswith(problem)
    assert all(line.startswith("durabench: ") for line in lines)
    assert len(lines) == (3 if fields else 1)
    assert not (terminal.folder / "lake").exists()


def test_a_server_without_tools_is_found_by_one_request(terminal: Terminal) -> None:
    """`run` and `doctor` say what to change. With it, the run only makes the arm's own call."""
    no_tools = api.error(400, "mine does not support tools")
    with api.OpenAIServer([api.text("Done.")], on_probe=lambda _: no_tools) as server:
        own = {"name": "openai/mine", "api_base": server.url}
        file = declare(terminal, own)
        done = terminal.attempt("run", file)
        assert done.returncode == 2, done.stderr
        [line] = done.stderr.splitlines()
        assert "arm a: openai/mine cannot be used: mine does not support tools (" in line
        assert "native_tools: false" in line
        assert not (terminal.folder / "lake").exists()
        looked = terminal.attempt("doctor", "--experiment", file)
        assert looked.returncode == 3
        assert f"problem  {line.removeprefix('durabench: ')}" in looked.stdout.splitlines()
        server.on_probe = lambda _: api.text("Yes.")
        file = declare(terminal, {**own, "native_tools": False})
        done = terminal.attempt("run", file, "--no-grade")
        assert done.returncode == 0, done.stderr
        assert len(server.requests) == 1


def test_a_run_stops_when_its_first_cells_fail_for_one_cause(terminal: Terminal) -> None:
    """It names the cause, takes no further cell, bills nothing, and the next run tries again."""
    key_is_wrong = api.Reply({"error": {"message": "Incorrect API key: sk-1"}}, status=401)
    with api.OpenAIServer(lambda _: key_is_wrong) as server:
        model = {"name": "openai/mine", "api_base": server.url}
        file = declare(terminal, model, select={"sample": 4}, concurrency=1)
        done = terminal.attempt("run", file)
        assert done.returncode == 3, done.stderr
        last = done.stderr.splitlines()[-1]
        assert last.startswith(
            "durabench: stopped, because the first 3 cells all ended as infrastructure for one "
            "cause: refused: Incorrect API key: sk-1"
        )
        assert len(server.requests) <= 4  # of the cells that failed, and of one that had started
    told = json.loads(terminal.attempt("status", "x", "--json").stdout)
    assert told["states"]["infrastructure"] == 3
    assert told["billed_usd"] == 0
    with api.OpenAIServer(lambda _: api.text("Done.")) as server:
        own = {"name": "openai/mine", "api_base": server.url}
        file = declare(terminal, own, select={"sample": 4}, concurrency=4)
        again = terminal.attempt("run", file, "--no-grade")
    assert again.returncode == 0, again.stderr


def test_a_wait_for_a_model_is_shown_while_it_lasts(terminal: Terminal) -> None:
    """One line on the terminal for all cells, and one for each of them in `status`."""
    overloaded = api.Reply({"error": {"message": "overloaded"}}, status=500)
    with api.OpenAIServer(lambda _: overloaded) as server:
        model = {"name": "openai/mine", "api_base": server.url}
        file = declare(terminal, model, select={"sample": 2}, concurrency=2)
        running = subprocess.Popen(
            [*PROGRAM, "run", file],
            cwd=terminal.folder,
            env=terminal.environment,
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        try:
            wait_until(lambda: len(server.requests) >= 7, seconds=200)
            told = json.loads(terminal.attempt("status", "x", "--json").stdout)
        finally:
            running.send_signal(signal.SIGINT)
            _, printed = running.communicate(timeout=60)
    retries = [cell["retry"] for cell in told["cells"] if cell["retry"]]
    assert retries
    assert all(" of 9 failed: server error: overloaded" in retry for retry in retries)
    [line] = [line for line in printed.splitlines() if "overloaded" in line]
    assert "try 3 of 9 failed: server error: overloaded; the next one is in " in line


@pytest.mark.full
def test_a_finished_experiment_needs_no_key(terminal: Terminal) -> None:
    """A private server needs none either. The second run uses the model's provider itself, has
    nothing to buy, and reports."""
    with api.OpenAIServer([api.text("Done.")]) as server:
        own = {"name": "openai/gpt-4o", "api_base": server.url}
        first = terminal.attempt("run", declare(terminal, own))
        asked = len(server.requests)
        second = terminal.attempt("run", declare(terminal, {"name": "openai/gpt-4o"}))
        assert len(server.requests) == asked > 0
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr


@pytest.mark.parametrize(
    "command",
    [["job"], pytest.param(["chat", "--repo"], marks=pytest.mark.full)],
    ids=["job", "chat"],
)
def test_jobs_and_chats_begin_with_no_call_either(terminal: Terminal, command: list[str]) -> None:
    """One line names the key, with exit code 2, before the first turn of an arm."""
    repository = terminal.folder / "repository"
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
    done = terminal.attempt(*command, str(repository), *said[command[0]], *options)
    assert done.returncode == 2, done.stderr
    [line] = [each for each in done.stderr.splitlines() if each.startswith("durabench: ")]
    assert line.endswith("openai/gpt-4o needs OPENAI_API_KEY in the environment")
