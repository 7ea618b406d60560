"""A large graph, and a selective fork in which nothing changed."""

import asyncio
import statistics
import time
from pathlib import Path

from agent.graph import ExecutionStateGraph
from agent.journal import Attempt, Journal
from agent.journal.blobs import Blobs
from agent.journal.holding import held
from agent.models.protocol import ModelRequest
from agent.session.log import JournalLog
from agent.session.reuse import Origins, Reuse, Rules
from agent.session.session import Session
from tests.agent.session.runs import prepare, scripted
from tests.agent.workspaces_on_host import HostWorkspaces
from tests.bench.timing import Bound

GRAPH_STEPS, GRAPH_LIMIT_S = 2_000, 0.5
FORKED_STEPS, FORK_LIMIT_S = 200, 1.0
ORIGINS = Origins({"": "model"}, "image")


def run(folder: Path, *, pairs: int) -> list[Bound]:
    """Measure both, `pairs` times each."""
    graphs = [_graph_s() for _ in range(pairs)]
    forks = asyncio.run(_forks_s(folder, pairs))
    return [
        Bound(
            f"a graph of {GRAPH_STEPS} steps: built, marked, ordered and written as JSON",
            statistics.median(graphs),
            GRAPH_LIMIT_S,
            "s",
            f"{len(graphs)} times",
        ),
        Bound(
            f"a selective fork of {FORKED_STEPS} steps in which nothing changed",
            statistics.median(forks),
            FORK_LIMIT_S,
            "s",
            "no call and no workspace",
        ),
    ]


def _graph_s() -> float:
    began = time.perf_counter()
    made = ExecutionStateGraph()
    for number in range(GRAPH_STEPS):
        made.add_step(str(number), reads=["x"], writes=["x"])
        made.record_output(str(number))
        for distance in (1, 7, 50):
            if number >= distance:
                made.add_edge(str(number - distance), str(number), {"x"})
    assert len(made.mark_stale("0")) == GRAPH_STEPS
    assert len(made.replay_from()) == GRAPH_STEPS
    ExecutionStateGraph.from_json(made.to_json())
    return time.perf_counter() - began


async def _forks_s(folder: Path, pairs: int) -> list[float]:
    journal = Journal.open(f"sqlite:///{folder}/journal.sqlite")
    await _attempt(journal, folder, "parent", HostWorkspaces(prepare), None)
    took = []
    for number in range(pairs):
        workspaces = HostWorkspaces(prepare)
        reuse = Reuse("parent", journal.steps("parent"), Rules())
        began = time.perf_counter()
        await _attempt(journal, folder, f"fork-{number}", workspaces, reuse)
        took.append(time.perf_counter() - began)
        assert workspaces.opened == []
        assert journal.account(f"fork-{number}").calls_billed == 0
    return took


async def _attempt(
    journal: Journal, folder: Path, name: str, workspaces: HostWorkspaces, reuse: Reuse | None
) -> None:
    journal.start(Attempt(name, "bench", "arm", "instance", 0, "{}", reuse and reuse.parent_id))
    turns = FORKED_STEPS // 2
    async with held(journal, name) as lease:
        log = JournalLog(journal, lease, Blobs(folder / "blobs"), [], reuse=reuse)
        async with Session.start(
            attempt_id=name,
            models={"": scripted(*["done"] * (0 if reuse else turns))},
            workspaces=workspaces,
            log=log,
            origins=ORIGINS,
        ) as session:
            for number in range(turns):
                await session.call(ModelRequest([{"role": "user", "content": str(number)}]))
                await session.run(f"echo {number} >> file.txt", timeout_s=60)
