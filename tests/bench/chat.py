"""The cost of durability in each update of a chat.

An update asks "Reply with the number i." and gets its answer, with the conversation before it. It
is a direct call, or a message to an attempt that reads it, calls the model and records all of that.
Each side is a separate process. They take turns after every update, so that a busy machine slows
all of them alike. The first update opens connections, and does not count. LiteLLM logs each call
after its answer, even without a logger. That belongs to the update of every side.
"""

import asyncio
import os
import statistics
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, redirect_stdout
from pathlib import Path
from time import perf_counter
from typing import TextIO

from agent import models
from agent.conversation.person import Person
from agent.journal import Attempt, InboxMessage, Journal
from agent.models import Message, Model, ModelReply, ModelRequest, http
from tests.agent.arms.conftest import TASK
from tests.agent.attempts import open_session
from tests.bench import terminal, waiting
from tests.bench.durability import Memory
from tests.bench.timing import Bound
from tests.servers import openai_server
from tests.servers.postgres import PostgresServer

UPDATES = 50

DIRECT, SQLITE, POSTGRESQL = SIDES = "direct call", "journal on SQLite", "journal on PostgreSQL"

MEAN_MS = {SQLITE: 3.0, POSTGRESQL: 8.0}
"""The most that a side can add to the mean of the direct calls."""
MAXIMUM_MS = 40.0
"""The most that the journal on SQLite can add to the maximum."""

ATTEMPT = Attempt("chat", "bench", "loop", "bench__row", 0, "{}")

Update = Callable[[int, ModelRequest], Awaitable[ModelReply]]
"""Takes the number of an update and its request. Returns the answer."""


def run(folder: Path, *, pairs: int) -> list[Bound]:
    """Measure all sides. `pairs` is ignored, since every update is a pair."""
    del pairs
    os.environ["OPENAI_API_KEY"] = "none"
    with ExitStack() as stack:
        turns = [openai_server.text(str(number)) for number in range(UPDATES + 1)]
        url = stack.enter_context(openai_server.serve_apart(folder, turns))
        databases = {
            DIRECT: "",
            SQLITE: f"sqlite:///{folder}/journal.sqlite",
            POSTGRESQL: stack.enter_context(PostgresServer()).create_database(),
        }
        sides = {
            side: stack.enter_context(_process(url, database, str(folder / f"{number}")))
            for number, (side, database) in enumerate(databases.items())
        }
        rows = [
            {side: _update(process) for side, process in sides.items()} for _ in range(UPDATES + 1)
        ]
    ms = {side: [row[side] for row in rows[1:]] for side in SIDES}
    means = {side: statistics.fmean(values) for side, values in ms.items()}
    bounds = [
        Bound(
            f"{side}, beyond a direct call, mean of {UPDATES} updates",
            means[side] - means[DIRECT],
            limit,
            "ms",
            f"{means[side]:.2f} ms against {means[DIRECT]:.2f} ms",
        )
        for side, limit in MEAN_MS.items()
    ]
    longest, direct = max(ms[SQLITE]), max(ms[DIRECT])
    title, detail = f"{SQLITE}, beyond a direct call, maximum", f"{longest:.2f}, {direct:.2f} ms"
    bounds.append(Bound(title, longest - direct, MAXIMUM_MS, "ms", detail))
    return [*bounds, *waiting.figures(folder), terminal.figure(folder)]


def _update(side: "subprocess.Popen[str]") -> float:
    """Let a side make an update. Return its milliseconds."""
    assert side.stdin is not None
    assert side.stdout is not None
    side.stdin.write("\n")
    side.stdin.flush()
    line = side.stdout.readline()
    if not line:
        raise RuntimeError(f"a process of the bench ended with exit code {side.wait()}")
    return float(line)


@contextmanager
def _process(*arguments: str) -> "Iterator[subprocess.Popen[str]]":
    """Run a side, which makes one update for each line that it reads."""
    command = [sys.executable, "-m", "tests.bench.chat", *arguments]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as side:
        try:
            yield side  # it ends when its input does
        except BaseException:
            side.kill()
            raise


async def _serve(url: str, database: str, folder: str, out: TextIO) -> None:
    """Make an update for each line, and print its milliseconds."""
    http.load()
    from litellm.litellm_core_utils.logging_worker import GLOBAL_LOGGING_WORKER

    model = models.build(models.parse({"name": "openai/gpt-4o", "api_base": url}), TASK, 0)
    talk: list[Message] = []
    async with _side(database, folder, model) as update:
        for number in range(UPDATES + 1):
            await asyncio.to_thread(sys.stdin.readline)
            start = perf_counter()
            talk.append({"role": "user", "content": f"Reply with the number {number}."})
            reply = await update(number, ModelRequest(list(talk), number=number))
            talk.append(reply.message)
            await asyncio.sleep(0)  # the call's logging is queued
            await GLOBAL_LOGGING_WORKER.flush()
            print(1000 * (perf_counter() - start), file=out, flush=True)
            assert str(number) in str(reply.message["content"])
        # Ending a process takes 0.2 s. The other sides would make their last update meanwhile.
        await asyncio.to_thread(sys.stdin.readline)


@asynccontextmanager
async def _side(database: str, folder: str, model: Model) -> AsyncIterator[Update]:
    if not database:
        yield lambda number, request: model.complete(request)
        return
    journal = Journal.open(database)
    journal.start(ATTEMPT)
    name = ATTEMPT.attempt_id
    async with open_session(journal, Path(folder), model, name, workspaces=Memory()) as session:
        person, inbox = Person(session, is_chat=True), journal.inbox(name)

        async def update(number: int, request: ModelRequest) -> ModelReply:
            text = str(request.messages[-1]["content"])
            message = InboxMessage(f"message-{number}", "say", text, "bench")
            inbox.send(message)  # as the terminal does
            await person.answer(number, "message", f"the answer before {number}")
            return await session.call(request)

        yield update


if __name__ == "__main__":
    out = sys.stdout
    with redirect_stdout(sys.stderr):  # libraries print other lines
        asyncio.run(_serve(*sys.argv[1:], out))
