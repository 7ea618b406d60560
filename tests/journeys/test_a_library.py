"""A program imports the durable agent: the examples of its page, with a local model server."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from agent.models.chat import tool_call
from tests.servers import openai_server as api

ROOT = Path(__file__).resolve().parents[2]
HELLO, STREAM, STEPS = re.findall(
    r"```python\n(.*?)```", (ROOT / "agent/LIBRARY.md").read_text(), re.DOTALL
)

pytestmark = pytest.mark.slow


def answer(request: dict[str, object]) -> api.Reply:
    """Ask for both tools, then say their results."""
    messages = request["messages"]
    assert isinstance(messages, list)
    results = [message["content"] for message in messages if message["role"] == "tool"]
    if results:
        return api.text(" and ".join(results))
    uses = {"add": '{"a": 25, "b": 17}', "weather": '{"city": "Rome"}'}
    replies = [tool_call(name, uses[name], call_id=name) for name in uses]
    asked = [call for reply in replies for call in reply["tool_calls"]]
    return api.completion({"role": "assistant", "content": None, "tool_calls": asked})


def run(program: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    (folder / "hello.py").write_text(program)
    command = [sys.executable, "hello.py"]
    path = {"PYTHONPATH": str(ROOT), "OPENAI_API_KEY": "none", "PATH": "/usr/bin:/bin"}
    return subprocess.run(command, cwd=folder, env=path, capture_output=True, text=True)


def test_a_killed_agent_resumes(tmp_path: Path) -> None:
    """Killed in a tool, it buys no call again. The steps can be read, and the end is the same."""
    assert len([line for line in HELLO.splitlines() if line]) <= 15
    dies = HELLO.replace("return f", "import os; os.kill(os.getpid(), 9); return f")
    with api.OpenAIServer(answer) as server:
        model = {"name": "openai/gpt-4o", "api_base": server.url}

        def at_server(program: str) -> str:
            return program.replace('"openai/gpt-5-mini"', repr(model))

        assert run(at_server(dies), tmp_path).returncode == -9
        for _ in range(2):
            done = run(at_server(HELLO), tmp_path)
            assert done.stdout.startswith("42.0 and Rome: sunny"), done.stderr
        assert len(server.requests) == 2
        assert "has another task" in run(at_server(HELLO).replace("Rome", "Bonn"), tmp_path).stderr
        streamed = run(at_server(HELLO + STREAM), tmp_path).stdout.splitlines()
    assert [line.partition("(")[0] for line in streamed[1:]] == [*["Step"] * 5, "AgentResult"]


def test_steps_of_python_run_again(tmp_path: Path) -> None:
    """The graph of the example finds the stale step, and the patch repairs the wrong one."""
    done = run(STEPS, tmp_path)
    assert "+print(total)" in done.stdout, done.stderr


def test_the_import_is_cheap() -> None:
    """The package loads nothing before a name is used, and has the names of the page."""
    code = "import sys, agent; print(len([m for m in sys.modules if m.startswith('agent.')]))"
    assert subprocess.check_output([sys.executable, "-c", code], cwd=ROOT, text=True) == "0\n"
    import agent

    names = (ROOT / "agent/LIBRARY.md").read_text()
    assert all(f"`{name}`" in names and getattr(agent, name) for name in agent.__all__)
