"""`durabench run` as a process, and a model that counts its requests."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import yaml

from agent.journal import Account, Journal
from flows.storage.journals import VARIABLE
from flows.storage.lake import Lake
from tests.servers import openai_server as api

DURABENCH = str(Path(sys.executable).with_name("durabench"))

SLEEP, SHORT_SLEEP = "sleep 4.25", "sleep 0.25"
"""The last part of a long command, and a short replacement for tests that need no long command.
Both have the same length, so that the calls cost the same."""

TURNS = (
    "ls",
    "echo one >> README.md",
    f"echo two >> README.md; {SLEEP}",
    "git diff -- README.md > patch.txt",
    "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && cat patch.txt",
)
"""The commands that the model asks for. Running the third one twice would show in the patch."""

BEFORE_THE_PAUSE, PAUSE = 1, 2
"""Turns: the call before the long command's call, and the long command's call."""

HOST_INSTANCES = [f"durabench__{name}" for name in ("quillet-1", "slotwise-1", "tidyini-1")]
DOCKER_INSTANCE = "durabench__tidyini-1"

Call = tuple[str, int]
"""The problem statement at the start of a conversation, and the turn."""


class CountedAnswers:
    """The script of a model server that counts its calls, independently of any journal."""

    def __init__(self, sleep: str = SHORT_SLEEP) -> None:
        self.asked: Counter[Call] = Counter()
        turns = [turn.replace(SLEEP, sleep) for turn in TURNS]
        self._answer = api.by_turn([api.command(turn) for turn in turns])
        self._lock = threading.Lock()
        self._hook: tuple[int, Callable[[], None]] | None = None

    def once(self, turn: int, happens: Callable[[], None]) -> None:
        """Call `happens` when the first call of that turn arrives, before it is answered."""
        self._hook = (turn, happens)

    def __call__(self, body: dict[str, Any]) -> api.Reply:
        messages = body["messages"]
        turn = sum(message["role"] == "assistant" for message in messages)
        with self._lock:
            self.asked[str(messages[1]["content"]), turn] += 1
            if self._hook is not None and self._hook[0] == turn:
                happens, self._hook = self._hook[1], None
                happens()
        return self._answer(body)


@dataclass(frozen=True)
class Ended:
    """The end of a run."""

    code: int
    output: str
    """Standard output and standard error, interleaved."""


class Running:
    """A `durabench run` in progress."""

    def __init__(self, command: list[str], environment: dict[str, str], output: Path) -> None:
        self._output = output
        with output.open("wb") as file:
            self._process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=file, stderr=file
            )

    def wait(self, timeout_s: float = 180) -> Ended:
        """Wait for the end of the run and return it.

        Raises:
            TimeoutExpired: the run hangs; it is killed first.
        """
        try:
            code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        return Ended(code, self._output.read_text(encoding="utf-8", errors="replace"))

    def kill(self) -> None:
        """Kill the run, as a power failure would."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def until(self, condition: Callable[[], Any], timeout_s: float = 90) -> Any:
        """Return the first true value of `condition` while the program runs."""
        deadline = time.monotonic() + timeout_s
        while not (found := condition()):
            assert self._process.poll() is None, self._output.read_text()
            assert time.monotonic() < deadline, f"the condition was not met within {timeout_s} s"
            time.sleep(0.05)
        return found


@dataclass(frozen=True)
class Program:
    """`durabench run --no-grade` of one experiment with one lake."""

    folder: Path
    """Folder of the experiment's file, the output and, if its path is relative, the lake."""
    declared: dict[str, Any]
    variables: dict[str, str] = field(default_factory=dict)
    lake: Path = Path("lake")
    """Relative to the folder, or absolute."""

    @property
    def store(self) -> Lake:
        return Lake.existing(self.folder / self.lake)

    @contextmanager
    def journal(self) -> Iterator[Journal]:
        """Open the journal that the program writes."""
        beside = f"sqlite:///{self.store.root / 'journal.sqlite'}"
        journal = Journal.open(self.variables.get(VARIABLE, beside))
        yield journal
        journal.close()

    def start(self) -> Running:
        """Start a run."""
        path = self.folder / "experiment.yaml"
        path.write_text(yaml.safe_dump(self.declared))
        command = [DURABENCH, "run", str(path), "--lake", str(self.store.root), "--no-grade"]
        environment = {**os.environ, "OPENAI_API_KEY": "throw-away", **self.variables}
        return Running(command, environment, self.folder / "output.txt")

    def run(self, timeout_s: float = 180) -> Ended:
        """Run the program and return how it ended."""
        return self.start().wait(timeout_s)

    def attempt_in_the_pause(self) -> str | None:
        """Return the id of an attempt whose next step to be recorded is the long command."""
        if not (self.store.root / "journal.sqlite").exists():
            return None
        with self.journal() as journal:
            for attempt in journal.find(""):
                steps = journal.steps(attempt.attempt_id)
                if len(steps) == 2 * PAUSE + 1 and steps[-1].result is not None:
                    return attempt.attempt_id
        return None

    def settled_calls(self) -> int:
        """Return the number of model calls that are recorded with their answer."""
        return sum(account.calls_credited for account in self._accounts())

    def billed_calls(self) -> int:
        """Return the number of calls in the ledger, which were sent or may have been sent."""
        return sum(account.calls_billed for account in self._accounts())

    def _accounts(self) -> list[Account]:
        with self.journal() as journal:
            return [journal.account(attempt.attempt_id) for attempt in journal.find("")]


def experiment(
    environment: str, instances: list[str], api_base: str, **model: Any
) -> dict[str, Any]:
    """Return an experiment with one arm; `model` are further settings of its model."""
    return {
        "name": "fault",
        "environment": environment,
        "select": {"ids": instances},
        "concurrency": 3,
        "arms": [{"name": "mini", "agent": "mini"}],
        "model": {"name": "openai/anything", "api_base": api_base, **model},
    }


def results(lake: Lake) -> dict[str, Any]:
    """Read every row of the lake and return the results that a report uses, by instance."""
    found = {}
    for unit in lake.units("attempts", "*"):
        [attempt] = lake.find("attempts", unit)
        calls = [(call["seq"], call["output_tokens"]) for call in lake.find("llm_calls", unit)]
        found[attempt["instance_id"]] = {
            "outcome": attempt["outcome"],
            "calls": sorted(calls),
            "steps": len(lake.find("steps", unit)),
            "patches": [row["model_patch"] for row in lake.find("predictions", unit)],
        }
    return found


def half_written(lake: Lake) -> list[Path]:
    """Return the incomplete files of the lake: temporary files and unreadable tables."""
    files = [path for path in lake.root.rglob("*") if path.is_file()]
    return [path for path in files if path.name.startswith(".") or not _reads(path)]


def reported(ended: Ended, *words: str) -> None:
    """Check that the run ended with broken infrastructure and one line with all these words."""
    assert ended.code == 3, ended.output
    assert "Traceback" not in ended.output
    lines = [line for line in ended.output.splitlines() if all(word in line for word in words)]
    assert lines, ended.output


def _reads(path: Path) -> bool:
    if path.suffix != ".parquet":
        return True
    try:
        pq.ParquetFile(path).read()
    except Exception:
        return False
    return True
