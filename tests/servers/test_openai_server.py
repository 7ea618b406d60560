"""The scripted server as a separate process."""

import json
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

SERVER = Path(__file__).parent / "openai_server.py"


def _ask(url: str, turns: int) -> dict[str, Any]:
    messages = [{"role": "assistant", "content": "x"}] * turns
    body = json.dumps({"model": "m", "messages": messages}).encode()
    with urllib.request.urlopen(f"{url}/chat/completions", body, timeout=10) as response:
        answer: dict[str, Any] = json.load(response)
    return answer


def test_a_process_answers_by_turn(tmp_path: Path) -> None:
    """The server prints its address and answers each conversation according to its length."""
    script = tmp_path / "turns.json"
    script.write_text(json.dumps(["ls", "pwd"]))
    command = [sys.executable, str(SERVER), "--script", str(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        commands = []
        for turns in (0, 1, 5):
            message = _ask(url, turns)["choices"][0]["message"]
            commands.append(json.loads(message["tool_calls"][0]["function"]["arguments"]))
        process.terminate()
    assert [entry["command"] for entry in commands] == ["ls", "pwd", "pwd"]
