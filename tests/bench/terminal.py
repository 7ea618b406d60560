"""An update of a chat on a terminal, against the same call made directly.

Both are programs on a terminal of their own. An update is the time from Enter to the last word of
the answer: `durabench chat` edits the line, records it, calls the model and shows what it
generates. The other program calls LiteLLM and prints the same.
"""

import os
import pty
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from tests.bench.timing import Bound
from tests.servers import openai_server

UPDATES, WARM_UP = 40, 5
MOST = 1.5
"""The most that a chat may take, as a multiple of the direct call."""

_TYPING_S = 0.05

_DIRECT = """
import sys, litellm
talk = []
for line in sys.stdin:
    talk.append({"role": "user", "content": line.strip()})
    given = {"api_base": sys.argv[1], "messages": talk, "stream": True}
    answer = ""
    for chunk in litellm.completion("openai/gpt-4o", **given):
        text = chunk.choices[0].delta.content or ""
        print(text, end="", flush=True)
        answer += text
    talk.append({"role": "assistant", "content": answer})
"""


def figure(folder: Path) -> Bound:
    """Measure both with the same server, one after the other."""
    environment = os.environ | {
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "OPENAI_API_KEY": "none",
        "PREFECT_HOME": str(folder / "prefect"),
    }
    with openai_server.OpenAIServer(_answer) as server:
        program = str(Path(sys.executable).with_name("durabench"))
        options = ["--model", "openai/gpt-4o", "--api-base", server.url, "-e", "host"]
        chat = [program, "chat", *options, "--lake", str(folder / "lake")]
        direct = [sys.executable, "-c", _DIRECT, server.url]
        chat_ms, direct_ms = (median(_measure_ms(each, environment)) for each in (chat, direct))
    return Bound(
        f"an update of `durabench chat` on a terminal, median of {UPDATES}, against a direct call",
        chat_ms / direct_ms,
        MOST,
        "×",
        f"{chat_ms:.1f} ms against {direct_ms:.1f} ms",
    )


def _answer(body: dict[str, Any]) -> openai_server.Reply:
    number = sum(message["role"] == "user" for message in body["messages"])
    return openai_server.text(f"This is answer {number}.")


def _measure_ms(command: list[str], environment: dict[str, str]) -> list[float]:
    took_ms = []
    with _terminal(command, environment) as terminal:
        for number in range(1, WARM_UP + UPDATES + 1):
            os.write(terminal, f"Give answer {number}".encode())
            time.sleep(_TYPING_S)
            start = time.perf_counter()
            os.write(terminal, b"\n")
            _read_until(terminal, rf"This is answer {number}\.")
            took_ms.append(1000 * (time.perf_counter() - start))
    return took_ms[WARM_UP:]


@contextmanager
def _terminal(command: list[str], environment: dict[str, str]) -> Iterator[int]:
    ours, theirs = pty.openpty()
    given = {"stdin": theirs, "stdout": theirs, "stderr": theirs, "env": environment}
    with subprocess.Popen(command, start_new_session=True, **given) as running:
        os.close(theirs)
        try:
            yield ours
        finally:
            os.write(ours, b"\x04")
            try:
                running.wait(10)
            except subprocess.TimeoutExpired:
                running.kill()
            os.close(ours)


def _read_until(terminal: int, pattern: str) -> None:
    shown = ""
    while not re.search(pattern, shown):
        shown += os.read(terminal, 65_536).decode(errors="replace")
