"""All arms and a program on a real model of 135 million parameters, which misbehaves in every way.

It has a llama-server of its own, whose count of tokens is compared with the ledger.
"""

import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from agent.arms.command.recipe import load
from agent.types import OutcomeStatus
from tests.journeys.command_line import Terminal
from tests.servers import llama
from tests.servers.prefect_server import PrefectServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

CALLS = 3
TOOLS = ["files", "symbols", "shell", "tests", "ptc", "subagents"]
ARMS: dict[str, dict[str, Any]] = {
    "mini": {"agent": "mini", "options": {"step_limit": CALLS}},
    "mini_retry": {"agent": "mini_retry", "options": {"step_limit": CALLS, "tries": 2}},
    "durable": {"agent": "durable", "options": {"step_limit": CALLS}},
    "full": {"agent": "durable", "options": {"step_limit": CALLS, "profile": {"preset": "full"}}},
    "loop": {"agent": "loop", "options": {"capabilities": TOOLS, "limits": {"calls": CALLS}}},
    "staged": {"agent": "staged", "options": {"limits": {"calls": CALLS}}},
}


@pytest.fixture
def terminal(tmp_path: Path, prefect_server: PrefectServer) -> Terminal:
    return Terminal(tmp_path, {"PREFECT_API_URL": prefect_server.url}, limit_s=3000)


@pytest.fixture(scope="module")
def model() -> Iterator[llama.Counter]:
    with llama.serve() as counter:
        yield counter


def declare(model: llama.Counter, arms: dict[str, dict[str, Any]], **fields: Any) -> dict[str, Any]:
    """Return an experiment on one bundled task. The window is what the server says."""
    spec = {"name": "openai/smollm", "api_base": model.url, "max_tokens": 48, "concurrency": 1}
    return {
        "name": "real",
        "dataset": "bundled",
        "select": {"ids": ["durabench__tidyini-1"]},
        "environment": "host",
        "model": {**spec, "temperature": 0},
        "arms": [{"name": name, **arm} for name, arm in arms.items()],
        "concurrency": 1,
        **fields,
    }


def count_tokens(terminal: Terminal) -> tuple[int, int, int]:
    """Return calls, and their tokens of input and output, in the lake."""
    rows = terminal.rows("attempts")
    names = ("model_calls", "input_tokens", "output_tokens")
    calls, inputs, outputs = (sum(row[name] for row in rows) for name in names)
    return calls, inputs, outputs


def test_each_arm_has_a_known_end_and_exact_counts(
    terminal: Terminal, model: llama.Counter
) -> None:
    """No arm hangs, and none of them ends as infrastructure. The ledger is the server's count."""
    before = len(model.tokens)
    program = {"install": {"folder": str(terminal.folder / "program")}}
    (terminal.folder / "program").mkdir()
    (terminal.folder / "program/venv").symlink_to(sys.prefix)
    recipe = load("mini-cli").model_dump(mode="json") | program
    command = {"agent": "command", "options": {"recipe": recipe, "run_limit_s": 300}}
    arms = {**ARMS, "mini-cli": command}
    limits = {"attempt": {"calls": 2 * CALLS}}
    file = terminal.write("real.yaml", declare(model, arms, budgets=limits))
    terminal.attempt("run", file)
    ends = [row["outcome"] for row in terminal.rows("attempts")]
    assert len(ends) == len(arms)
    assert set(ends) <= {*get_args(OutcomeStatus)}
    answers = model.tokens[before:]
    tokens = [sum(counts) for counts in zip(*answers, strict=True)]
    assert count_tokens(terminal) == (len(answers), *tokens)


def test_a_killed_run_asks_again_only_what_was_in_flight(
    terminal: Terminal, model: llama.Counter
) -> None:
    """The answers that were recorded before the kill are not bought again."""
    file = terminal.write("real.yaml", declare(model, {"durable": ARMS["durable"]}))
    first = model.sent + 3
    running = terminal.begin("run", file)

    def kill(number: int) -> bool:
        if number == first:
            running.send_signal(signal.SIGKILL)
            running.wait()
        return number != first

    answered = len(model.tokens)
    model.before = kill
    try:
        assert running.wait() == -signal.SIGKILL
        assert len(model.tokens) - answered == 2
        terminal.attempt("run", file)
    finally:
        model.before = lambda number: True
    assert len(model.tokens) - answered == count_tokens(terminal)[0]
