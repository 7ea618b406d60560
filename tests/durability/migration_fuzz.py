"""Attempts handed over between worker processes by force, with programs and children in flight.

    python -m tests.durability.migration_fuzz --workers 3 --iterations 20 --max-n 5 \
        --kind ptc-mixed --seed 1

Workers are processes that compete for one attempt in one journal: SQLite, or PostgreSQL if
`DURABENCH_DATABASE_URL` names one. At random moments the holder is killed. Each attempt has to end
as the same attempt does without kills, and no call may be bought twice but those in flight.
"""

import asyncio
import json
import multiprocessing
import os
import random
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from agent.arms.loop import arm
from agent.arms.options import LoopOptions
from agent.errors import FencedError, LeaseHeld
from agent.journal import Attempt, InboxMessage, Journal
from agent.journal.blobs import Blobs
from agent.journal.holding import hold_lease
from agent.models.protocol import ModelReply, ModelRequest
from agent.session.log import JournalLog
from agent.session.session import Session
from tests.agent.arms.durable.conftest import FILES, TASK, RoleModel, Said, answer
from tests.agent.repositories import with_files
from tests.agent.workspaces_on_host import HostWorkspaces

KINDS = ("direct-spawns", "ptc-spawns", "ptc-mixed", "chat")

DECLARED = {
    "scout": {"capabilities": ["look"]},
    "worker": {"capabilities": ["files"], "writes": True},
}
DONE: Said = answer(summary="did it", status="done")
LOOK: Said = [("read", {"path": "calc.py"})]

SPAWNS = """
import asyncio
found = await asyncio.gather(*[spawn(agent=kind, task="do it") for kind in {kinds!r}])
[each["status"] for each in found]
"""

MIXED = """
import asyncio
async def branch(n):
    await write(path=f"mixed-{{n}}.txt", content=str(n))
    child = await spawn(agent=["scout", "worker"][n % 2], task="do it")
    done = await run_command(command=f"wc -c < mixed-{{n}}.txt")
    try:
        await read(path=f"missing-{{n}}.txt")
    except ValueError:
        return [n, child["status"], done["output"].strip()]
await asyncio.gather(*[branch(n) for n in range({n})])
"""


@dataclass(frozen=True)
class Case:
    """One attempt to be handed over."""

    folder: str
    url: str
    name: str
    kind: str
    n: int

    @property
    def bought(self) -> Path:
        """The file with one line for each call that was sent."""
        return Path(self.folder) / f"{self.name}.calls"

    @property
    def turns(self) -> int:
        """The turns of a chat."""
        return 2 * self.n

    @property
    def lost(self) -> Path:
        """The file with one line for each scope whose call a holder left unanswered."""
        return Path(self.folder) / f"{self.name}.lost"


class Bought(RoleModel):
    """A model that takes some time, and writes down each call that is sent."""

    case: Case

    async def complete(self, request: ModelRequest) -> ModelReply:
        note(self.case.bought, f"{request.scope}/{request.number}")
        await asyncio.sleep(random.uniform(0.01, 0.2))
        return await super().complete(request)


def note(file: Path, line: str) -> None:
    """Add a line to a file that several processes write."""
    handle = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(handle, f"{line}\n".encode())
    os.close(handle)


def script(case: Case) -> list[Said]:
    """Return the replies of the first agent."""
    kinds = [("scout", "worker")[number % 2] for number in range(case.n)]
    if case.kind == "direct-spawns":
        spawns: Said = [("spawn", {"agent": kind, "task": "do it"}) for kind in kinds]
        written = ("write", {"path": "own.txt", "content": "own"})
        return [[*spawns, written], LOOK, DONE]
    if case.kind == "chat":
        return [reply for turn in range(case.turns) for reply in _turn(turn)]
    code = SPAWNS.format(kinds=kinds) if case.kind == "ptc-spawns" else MIXED.format(n=case.n)
    return [[("run_ptc", {"code": code})], LOOK, DONE]


def _turn(number: int) -> list[Said]:
    return [[("write", {"path": f"{number}.txt", "content": "said"})], f"I wrote {number}."]


def work(case: Case) -> None:
    """Be a worker: try to get the attempt until it has ended."""
    asyncio.run(_work(case))


async def _work(case: Case) -> None:
    journal = Journal.open(case.url)
    while journal.outcome(case.name) is None:
        try:
            async with hold_lease(journal, case.name, 5.0) as lease:
                for scope in in_flight(journal, case):
                    note(case.lost, scope)
                recorded = journal.steps(case.name)
                log = JournalLog(journal, lease, Blobs(Path(case.folder) / "blobs"), recorded)
                outcome = await _solve(case, log)
                journal.end(lease, outcome)
        except (LeaseHeld, FencedError):  # a slow machine may let a lease run out
            await asyncio.sleep(0.05)


async def _solve(case: Case, log: JournalLog) -> str:
    model = Bought({"loop": script(case), "scout": [LOOK, DONE], "worker": [writing(), DONE]})
    model.case = case
    workspaces = HostWorkspaces(with_files(FILES))
    workspaces._name = f"fuzz-{os.getppid()}-{case.name}"
    options = LoopOptions.model_validate(
        {
            "capabilities": ["files", "shell", "subagents", "ptc"],
            "subagents": {"kinds": DECLARED},
            "interactive": case.kind == "chat",
        }
    )
    async with Session.start(
        attempt_id=case.name, models={"": model}, workspaces=workspaces, log=log
    ) as session:
        outcome = await arm.solve(TASK, session, options)
    return f"{outcome.status}\n{outcome.patch}"


def writing() -> Said:
    return [("write", {"path": "made.txt", "content": "made"})]


@contextmanager
def answering(case: Case) -> Iterator[None]:
    """Send each message of a chat twice when the attempt waits for it, and then its end."""
    over = threading.Event()

    def send() -> None:
        journal = Journal.open(case.url)
        inbox = journal.inbox(case.name)
        while not over.wait(0.02):
            wait = inbox.wait()
            if wait is not None and not wait.is_answered:
                number = len(inbox.read()) + 1
                message = InboxMessage(str(number), "say", f"write {number}", "fuzz")
                if number == case.turns:
                    message = replace(message, kind="end")
                for _ in range(2):
                    inbox.send(message)
        journal.close()

    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield
    finally:
        over.set()
        sender.join()


@dataclass
class Tally:
    """Counts over all iterations."""

    kills: int = 0
    handovers: int = 0
    in_flight: int = 0
    twice: int = 0
    differing: list[str] = field(default_factory=list)
    wrongly_twice: list[str] = field(default_factory=list)


def hand_over(case: Case, workers: int, rng: random.Random, tally: Tally) -> None:
    """Let workers compete for an attempt, and kill its holders, until it has ended."""
    context = multiprocessing.get_context("forkserver")
    journal = Journal.open(case.url)
    journal.start(Attempt(case.name, "fuzz", "loop", "calc", 0, "{}"))
    left = rng.randint(1, 4)
    running = [context.Process(target=work, args=(case,)) for _ in range(workers)]
    for process in running:
        process.start()
    kill_at = time.monotonic() + rng.uniform(0.5, 2.5)
    while journal.outcome(case.name) is None:
        time.sleep(0.02)
        if left and time.monotonic() > kill_at:
            holder = _holder(journal, case, running)
            if holder is None:
                continue
            os.kill(holder.pid or 0, signal.SIGKILL)
            holder.join()
            tally.kills += 1
            left -= 1
            running.remove(holder)
            running.append(context.Process(target=work, args=(case,)))
            running[-1].start()
            kill_at = time.monotonic() + rng.uniform(0.5, 2.5)
    for process in running:
        process.join()
    lost = set(case.lost.read_text().split()) if case.lost.exists() else set()
    tally.in_flight += len(lost)
    tally.handovers += max(0, sum(each.steps > 0 for each in journal.tenures(case.name)) - 1)
    calls = Counter(case.bought.read_text().split())
    again = [place for place, count in calls.items() if count > 1]
    tally.twice += len(again)
    tally.wrongly_twice += [place for place in again if place.rpartition("/")[0] not in lost]
    journal.close()


def _holder(journal: Journal, case: Case, running: list[Any]) -> Any:
    """Return the process that holds the attempt, or None."""
    name = journal.holder(case.name) or ""
    alive = {str(process.pid): process for process in running if process.is_alive()}
    return next(
        (alive[pid] for pid in name.rpartition("/")[2].split("-")[:1] if pid in alive), None
    )


def in_flight(journal: Journal, case: Case) -> set[str]:
    """Return the scopes with a call that is begun and not answered."""
    steps = journal.steps(case.name)
    return {step.scope for step in steps if step.kind == "model" and step.result is None}


def ending(case: Case) -> tuple[str | None, list[Any]]:
    """Return how an attempt ended, its messages, and the results of its tools in any order.

    A program numbers its calls as it makes them, and that depends on what ends first.
    """
    journal = Journal.open(case.url)
    recorded = journal.steps(case.name)
    found: list[Any] = sorted(step.result or b"" for step in recorded if step.kind == "action")
    heard = (json.loads(each.result or b"") for each in recorded if b'"inbox"' in each.request)
    found += [(said["n"], said["text"]) for event in heard for said in event["content"]]
    outcome = journal.outcome(case.name)
    journal.close()
    return outcome, found


def fuzz(kind: str, workers: int, iterations: int, max_n: int, seed: int) -> Tally:
    """Hand over attempts of one kind, and compare each with the same attempt left in peace."""
    rng, tally = random.Random(seed), Tally()
    multiprocessing.get_context("forkserver").set_forkserver_preload(["agent.arms.loop.arm"])
    with tempfile.TemporaryDirectory(prefix="durabench-fuzz-") as folder:
        url = os.environ.get("DURABENCH_DATABASE_URL") or f"sqlite:///{folder}/journal.sqlite"
        for number in range(iterations):
            prefix = f"{kind}-{seed}-{os.getpid()}-{number}"
            case = Case(folder, url, prefix, kind, rng.randint(1, max_n))
            with answering(case):
                hand_over(case, workers, rng, tally)
            calm = Case(folder, url, f"{prefix}-calm", kind, case.n)
            with answering(calm):
                hand_over_without_kills(calm)
            if ending(case) != ending(calm):
                tally.differing.append(case.name)
    return tally


def hand_over_without_kills(case: Case) -> None:
    """Run an attempt in one process, undisturbed."""
    journal = Journal.open(case.url)
    journal.start(Attempt(case.name, "fuzz", "loop", "calc", 0, "{}"))
    journal.close()
    process = multiprocessing.get_context("forkserver").Process(target=work, args=(case,))
    process.start()
    process.join()
