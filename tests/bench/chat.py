"""Table 2: what durability costs in each update of a chat.

An update asks "Reply with the number i." and gets its answer, with the conversation before it. It
is a direct call, or a message to an attempt that reads it, asks the model and records all of that:
on SQLite, on PostgreSQL, or on SQLite inside a Prefect flow. Each side is a process of its own.
They take turns after every update, so that a busy machine slows all of them alike. The first update
opens connections, and does not count. LiteLLM logs each call after its answer, even without a
logger. That belongs to the update of every side, as it would if the next update began at once.
"""

import asyncio
import json
import os
import statistics
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, redirect_stdout
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, TextIO

from agent import models
from agent.conversation.person import Person
from agent.journal import Attempt, InboxMessage, Journal
from agent.journal.blobs import Blobs
from agent.journal.holding import hold_lease
from agent.models import Message, Model, ModelReply, ModelRequest, http
from agent.session.log import JournalLog
from agent.session.session import Session
from flows.display.terminal import columns
from tests.agent.arms.conftest import TASK
from tests.bench import waiting
from tests.bench.durability import Memory
from tests.bench.timing import Bound
from tests.servers import openai_server
from tests.servers.postgres import PostgresServer
from tests.servers.prefect_server import PrefectServer

UPDATES = 50

DIRECT, SQLITE, POSTGRESQL, PREFECT = SIDES = (
    "direct call",
    "journal on SQLite",
    "journal on PostgreSQL",
    "SQLite, in a Prefect flow",
)

MEAN_MS: dict[str, float | None] = {SQLITE: 3.0, POSTGRESQL: 8.0, PREFECT: None}
"""The most that a side may add to the mean of the direct calls."""
MAXIMUM_MS = 40.0
"""The most that the journal on SQLite may add to the maximum."""

ATTEMPT = Attempt("chat", "bench", "loop", "bench__row", 0, "{}")

Ask = Callable[[int, ModelRequest], Awaitable[ModelReply]]
"""Takes the number of an update and its request. Returns the answer."""


@dataclass(frozen=True)
class Given:
    """The input of the process of a side."""

    side: str
    model: dict[str, Any]
    database: str
    folder: str


@dataclass(frozen=True)
class Row:
    """One row of the table, in milliseconds."""

    side: str
    updates_ms: list[float]
    cpu_ms: float
    """Mean processor time of the process. It says more than the others on a busy machine."""
    right: int
    """Answers with the number that was asked for."""

    @property
    def mean(self) -> float:
        return statistics.fmean(self.updates_ms)

    @property
    def figures(self) -> list[float]:
        """Mean, standard deviation, minimum, maximum and 95th percentile."""
        values = self.updates_ms
        p95 = statistics.quantiles(values, n=20, method="inclusive")[-1]
        return [self.mean, statistics.stdev(values), min(values), max(values), p95]


def run(
    folder: Path, *, pairs: int, model: str | None = None, api_base: str | None = None
) -> list[Bound]:
    """Measure all sides, and print the table.

    Without `model`, a local server answers. `pairs` is ignored, since every update is a pair.
    """
    del pairs
    with ExitStack() as stack:
        spec = {"name": model, "api_base": api_base}
        if model is None:
            os.environ["OPENAI_API_KEY"] = "none"
            spec = {"name": "openai/gpt-4o", "api_base": stack.enter_context(_server(folder))}
        postgres = stack.enter_context(PostgresServer())
        prefect = stack.enter_context(PrefectServer(folder / "server"))
        databases = {POSTGRESQL: postgres.create_database()}
        sides = [
            stack.enter_context(
                _process(
                    Given(
                        side,
                        spec,
                        databases.get(side, f"sqlite:///{folder}/{number}.sqlite"),
                        str(folder / str(number)),
                    ),
                    {**prefect.environment, "PREFECT_LOGGING_LEVEL": "CRITICAL"}
                    if side == PREFECT
                    else dict(os.environ),
                )
            )
            for number, side in enumerate(SIDES)
        ]
        rows = _measured(sides)
    print("\n".join(f"  {line}" for line in _table(rows)), flush=True)
    return [*_bounds(rows), *waiting.figures(folder)]


def _measured(sides: "list[subprocess.Popen[str]]") -> list[Row]:
    """Let the sides make their updates in turn. Return a row for each side."""
    answers = [[_update(side) for side in sides] for _ in range(UPDATES + 1)][1:]
    return [
        Row(
            name,
            [each["ms"] for each in own],
            statistics.fmean(each["cpu_ms"] for each in own),
            sum(each["right"] for each in own),
        )
        for name, own in zip(SIDES, zip(*answers, strict=True), strict=True)
    ]


def _update(side: "subprocess.Popen[str]") -> dict[str, Any]:
    assert side.stdin is not None
    assert side.stdout is not None
    side.stdin.write("\n")
    side.stdin.flush()
    told = side.stdout.readline()
    if not told:
        raise RuntimeError(f"a process of the bench ended with exit code {side.wait()}")
    answer: dict[str, Any] = json.loads(told)
    return answer


def _table(rows: list[Row]) -> list[str]:
    """Return the table as lines."""
    head = ["ms per update", "mean", "sd", "min", "max", "p95", "adds", "cpu", "right"]
    direct = rows[0].mean
    lines = [
        [
            row.side,
            *(f"{figure:.2f}" for figure in row.figures),
            f"{row.mean - direct:.2f}",
            f"{row.cpu_ms:.2f}",
            f"{row.right} of {UPDATES}",
        ]
        for row in rows
    ]
    return columns([head, *lines], right=range(1, len(head)))


def _bounds(rows: list[Row]) -> list[Bound]:
    direct, *durable = rows
    sqlite = durable[0]
    return [
        *(
            Bound(
                f"{row.side}, beyond a direct call, mean of {UPDATES} updates",
                row.mean - direct.mean,
                MEAN_MS[row.side],
                "ms",
                f"{row.mean:.2f} ms against {direct.mean:.2f} ms; processor: "
                f"{row.cpu_ms:.2f} ms against {direct.cpu_ms:.2f} ms",
            )
            for row in durable
        ),
        Bound(
            f"{sqlite.side}, beyond a direct call, maximum",
            max(sqlite.updates_ms) - max(direct.updates_ms),
            MAXIMUM_MS,
            "ms",
            f"{max(sqlite.updates_ms):.2f} ms against {max(direct.updates_ms):.2f} ms",
        ),
    ]


@contextmanager
def _server(folder: Path) -> Iterator[str]:
    """Yield the address of a model server that is a process of its own."""
    script = folder / "turns.json"
    turns = [asdict(openai_server.text(str(number))) for number in range(UPDATES + 1)]
    script.write_text(json.dumps(turns))
    command = [sys.executable, openai_server.__file__, "--port", "0", "--script", str(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


@contextmanager
def _process(given: Given, environment: dict[str, str]) -> "Iterator[subprocess.Popen[str]]":
    """Run a side, which makes one update for each line that it reads."""
    command = [sys.executable, "-m", "tests.bench.chat", json.dumps(asdict(given))]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, env=environment, text=True, **pipes) as side:
        try:
            yield side  # it ends when its input does
        except BaseException:
            side.kill()
            raise


async def _serve(given: Given, out: TextIO) -> None:
    """Make an update for each line, and print its milliseconds."""
    http.load()
    from litellm.litellm_core_utils.logging_worker import GLOBAL_LOGGING_WORKER

    model = models.build(models.parse(given.model), TASK, 0)
    talk: list[Message] = []
    async with _side(given, model) as ask:
        for number in range(UPDATES + 1):
            await asyncio.to_thread(sys.stdin.readline)
            began, cpu_began = perf_counter(), process_time()
            talk.append({"role": "user", "content": f"Reply with the number {number}."})
            reply = await ask(number, ModelRequest(list(talk), number=number))
            talk.append(reply.message)
            await asyncio.sleep(0)  # the call's logging is queued
            await GLOBAL_LOGGING_WORKER.flush()
            told = {
                "ms": 1000 * (perf_counter() - began),
                "cpu_ms": 1000 * (process_time() - cpu_began),
                "right": str(number) in str(reply.message["content"]),
            }
            print(json.dumps(told), file=out, flush=True)
        # To end takes a process 0.2 s. The others would make their last update meanwhile.
        await asyncio.to_thread(sys.stdin.readline)


@asynccontextmanager
async def _side(given: Given, model: Model) -> AsyncIterator[Ask]:
    if given.side == DIRECT:
        yield lambda number, request: model.complete(request)
        return
    journal = Journal.open(given.database)
    journal.start(ATTEMPT)
    async with (
        hold_lease(journal, ATTEMPT.attempt_id) as lease,
        Session.start(
            attempt_id=ATTEMPT.attempt_id,
            models={"": model},
            workspaces=Memory(),
            log=JournalLog(journal, lease, Blobs(Path(given.folder)), ()),
        ) as session,
    ):
        person, inbox = Person(session, is_chat=True), journal.inbox(ATTEMPT.attempt_id)

        async def ask(number: int, request: ModelRequest) -> ModelReply:
            text = str(request.messages[-1]["content"])
            message = InboxMessage(f"message-{number}", "say", text, "bench")
            inbox.send(message)  # as the terminal does
            await person.answer(number, "message", f"the answer before {number}")
            return await session.call(request)

        yield ask


def _in_a_flow(given: Given, out: TextIO) -> None:
    """Make the updates inside a flow of the configured Prefect server."""
    from prefect import flow

    @flow(name="chat")
    async def chat() -> None:
        await _serve(given, out)

    asyncio.run(chat())


def _main() -> None:
    given = Given(**json.loads(sys.argv[1]))
    out = sys.stdout
    with redirect_stdout(sys.stderr):  # what libraries print is no answer
        if given.side == PREFECT:
            _in_a_flow(given, out)
        else:
            asyncio.run(_serve(given, out))


if __name__ == "__main__":
    _main()
