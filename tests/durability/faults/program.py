"""`durabench run` as a process, and a model that counts its requests."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pyarrow.parquet as pq

from agent.journal import Account, Journal
from flows.storage.journals import VARIABLE
from flows.storage.lake import Lake
from tests.journeys.command_line import Terminal
from tests.servers import openai_server as api

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

Ended = CompletedProcess[str]
"""The end of a run."""

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
class Program(Terminal):
    """`durabench run --no-grade` of one experiment."""

    declared: dict[str, Any] = field(default_factory=dict)

    @contextmanager
    def journal(self) -> Iterator[Journal]:
        """Open the journal that the program writes."""
        beside = f"sqlite:///{self.lake.root / 'journal.sqlite'}"
        journal = Journal.open(self.variables.get(VARIABLE, beside))
        yield journal
        journal.close()

    @property
    def command(self) -> tuple[str, ...]:
        """The arguments of a run, whose file is there."""
        return "run", self.write("experiment.yaml", self.declared), "--no-grade"

    def run(self) -> Ended:
        """Run the program and return how it ended."""
        return self.attempt(*self.command)

    def start(self) -> Future[Ended]:
        """Run the program in a thread."""
        return ThreadPoolExecutor(1).submit(self.run)

    def attempt_in_the_pause(self) -> str | None:
        """Return the id of an attempt whose next step to be recorded is the long command."""
        if not (self.lake.root / "journal.sqlite").exists():
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
    output = ended.stdout + ended.stderr
    assert ended.returncode == 3, output
    assert "Traceback" not in output
    assert [line for line in output.splitlines() if all(word in line for word in words)], output


def _reads(path: Path) -> bool:
    if path.suffix != ".parquet":
        return True
    try:
        pq.ParquetFile(path).read()
    except Exception:
        return False
    return True
