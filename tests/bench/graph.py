"""A large graph, a selective fork and a derived arm with no change, and cells of a notebook."""

import asyncio
import statistics
import time
from pathlib import Path
from typing import Any

from agent.graph import ExecutionStateGraph
from agent.journal import Attempt, Journal
from agent.journal.blobs import Blobs
from agent.journal.holding import hold_lease
from agent.models.protocol import ModelRequest
from agent.session.log import JournalLog
from agent.session.reuse import Origins, Reuse, Rules
from agent.session.session import Session
from flows.experiments import declaration
from flows.experiments.declaration import Experiment
from tests.agent.cells.conftest import on_host
from tests.agent.session.runs import prepare, scripted
from tests.agent.workspaces_on_host import HostWorkspaces
from tests.bench.timing import Bound

GRAPH_STEPS, GRAPH_LIMIT_S = 2_000, 0.5
FORKED_STEPS, FORK_LIMIT_S = 200, 1.0
CELLS, DEPENDENT, CELL_LIMIT_MS = 50, 5, 60.0
DERIVED_CELLS, DERIVED_LIMIT_S = 200, 30.0
ORIGINS = Origins({"": "model"}, "image")


def run(folder: Path, *, pairs: int) -> list[Bound]:
    """Measure the first two `pairs` times each, the cells one by one, and the derived arm once."""
    graphs = [_graph_s() for _ in range(pairs)]
    forks = asyncio.run(_forks_s(folder, pairs))
    cells_ms, ran = asyncio.run(_cells())
    return [
        Bound(
            f"a graph of {GRAPH_STEPS} steps: built, marked and written as JSON",
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
        Bound(
            "a cell, beyond `python -c pass` in the same workspace",
            statistics.median(cells_ms),
            CELL_LIMIT_MS,
            "ms",
            f"median of {len(cells_ms)} pairs",
        ),
        Bound(
            f"cells that run again of a chain of {CELLS} after an edit, {DEPENDENT} depend on it",
            len(ran),
            1 + DEPENDENT,
            "cells",
            f"numbers {ran[0]} to {ran[-1]}",
        ),
        Bound(
            f"a derived arm of {DERIVED_CELLS} cells in which nothing changed",
            _derived_s(folder / "derived"),
            DERIVED_LIMIT_S,
            "s",
            "no call and no workspace; without the run of its base",
        ),
    ]


async def _cells() -> tuple[list[float], list[int]]:
    """Return the milliseconds of cells beyond an empty program, and what an edit ran again."""
    async with on_host() as talk:
        await talk.run("total = 0")
        beyond_ms = []
        for _ in range(1, CELLS):
            began = time.perf_counter()
            await talk.shell("python -c pass")
            between = time.perf_counter()
            await talk.run("total += 1")
            took_s = time.perf_counter() - between
            beyond_ms.append(1000 * (took_s - (between - began)))
        edited = CELLS - DEPENDENT
        await talk.use("cell_edit", cell=edited, code="total += 2")
        ran = await talk.ran()
        assert ran == list(range(edited, CELLS + 1))
        return beyond_ms, ran


def _graph_s() -> float:
    began = time.perf_counter()
    made = ExecutionStateGraph()
    for number in range(GRAPH_STEPS):
        made.add_step(str(number), reads=["x"], writes=["x"], state="executed")
        for distance in (1, 7, 50):
            if number >= distance:
                made.add_edge(str(number - distance), str(number), {"x"})
    assert len(made.mark_stale(["0"])) == GRAPH_STEPS
    assert made.to_json()
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


def _derived_s(folder: Path, cells: int = DERIVED_CELLS) -> float:
    """Return the time of a benchmark that adds an arm which asks for the same as its base."""
    from flows.benchmark import benchmark
    from flows.cli.running import run_flow
    from flows.server.api import prefect_api

    folder.mkdir()
    lake_path = str(folder / "lake")
    with prefect_api():
        run_flow(lambda: benchmark(_ablation([], cells), lake_path))
        same = {"name": "same", "from": "mini", "options": {"step_limit": 100}}
        began = time.perf_counter()
        run_flow(lambda: benchmark(_ablation([same], cells), lake_path))
        return time.perf_counter() - began


def _ablation(arms: list[dict[str, Any]], cells: int) -> Experiment:
    content = {
        "name": "derived",
        "environment": "host",
        "select": {"sample": 10},
        "repeats": cells // 10,
        "model": {"provider": "simulated", "skill": 1},
        "arms": [{"name": "mini", "agent": "mini"}, *arms],
    }
    return declaration.parse(content, "bench")


async def _attempt(
    journal: Journal, folder: Path, name: str, workspaces: HostWorkspaces, reuse: Reuse | None
) -> None:
    journal.start(Attempt(name, "bench", "arm", "instance", 0, "{}", reuse and reuse.parent_id))
    turns = FORKED_STEPS // 2
    async with hold_lease(journal, name) as lease:
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
