"""The service: the answer to a submission, a page of many jobs, and steps on many sockets."""

import asyncio
import json
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from websockets.sync.client import ClientConnection

from tests.bench.timing import Bound
from tests.flows.jobs.service.conftest import JOB, deploy
from tests.flows.jobs.service.recording import DONE, Worker, filed
from tests.servers.prefect_server import PrefectServer
from tests.servers.service import Service

JOBS, SOCKETS, TIMES = 500, 50, 20
SUBMIT_S, PAGE_S, STEP_S = 0.3, 1.0, 0.5
WATCHED = "abcdef0123"


def run(folder: Path, pairs: int) -> list[Bound]:
    """Measure one service beside a Prefect server. `pairs` is ignored: each figure is of many."""
    with PrefectServer(folder / "server") as server:
        asyncio.run(deploy(server))
        for number in range(JOBS):
            filed(folder / "server" / "lake", f"{number:010x}", **DONE)
        with Service(server, "--rate", "100000") as service:
            pages = [_seconds(lambda: _page(service)) for _ in range(TIMES)]
            submissions = [_seconds(lambda: service.post("/submit", JOB)) for _ in range(TIMES)]
            steps = _steps(service, SOCKETS)
    return [
        _bound("a submission, until it is answered", submissions, SUBMIT_S),
        _bound(f"the page of {JOBS} jobs", pages, PAGE_S),
        _bound(f"a step, from its row to the last of {SOCKETS} sockets", steps, STEP_S),
    ]


def _bound(title: str, seconds: list[float], limit: float) -> Bound:
    worst = f"median of {len(seconds)}; at most {max(seconds):.2f} s"
    return Bound(title, statistics.median(seconds), limit, "s", worst)


def _seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def _page(service: Service) -> None:
    text = service.client.get("/ui/jobs", headers={"Accept": "text/html"}).text
    assert text.count('<th scope="row">') == JOBS


def _steps(service: Service, sockets: int) -> list[float]:
    """Return the time from the row of each step until all sockets have it."""
    job_id = f"{WATCHED}{sockets:02}"
    filed(service.lake, job_id)
    worker = Worker(service.lake, job_id)
    opened = [service.follow(job_id) for _ in range(sockets)]
    for socket in opened:
        _next_step(socket, "status")
    times = []
    with ThreadPoolExecutor(sockets) as reading:
        for number in range(TIMES):
            worker.command(f"echo {number}")
            begun = time.perf_counter()
            list(reading.map(_next_step, opened))
            times.append(time.perf_counter() - begun)
    for socket in opened:
        socket.close()
    return times


def _next_step(socket: ClientConnection, kind: str = "step") -> None:
    while json.loads(socket.recv(timeout=60))["type"] != kind:
        pass
