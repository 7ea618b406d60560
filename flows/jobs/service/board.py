"""The state of jobs, from their rows in the lake and their flow runs in Prefect."""

import asyncio
import json
import os
from collections.abc import Awaitable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

import httpx
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.exceptions import PrefectHTTPStatusError

from agent.errors import one_line
from agent.timings import timings
from flows.jobs import flow_runs, rows
from flows.jobs.deployed import Deployed
from flows.jobs.flow_runs import JOB, OPEN, PIPELINE, UNFINISHED, name_job, name_pipeline_run
from flows.jobs.service.guard import Problem, not_found
from flows.storage.lake import Lake, Row

_READERS = 4


class SharedRows:
    """The rows of a table, of which only changed files are read again."""

    def __init__(self, lake: Lake, table: str, columns: Sequence[str]) -> None:
        self._lake, self._table, self._columns = lake, table, columns
        self._kept: dict[str, tuple[Hashable, Row]] = {}

    def read(self) -> list[Row]:
        """Return all rows with these columns, in no order.

        Raises:
            InfrastructureError: a disk or object-store operation failed.
        """
        with self._lake.reading():
            there = dict(self._stamps())
        changed = [unit for unit, stamp in there.items() if self._stamp_of(unit) != stamp]
        with ThreadPoolExecutor(_READERS) as readers:
            rows = list(readers.map(self._row, changed))
        kept = {unit: each for unit, each in self._kept.items() if unit in there}
        for unit, row in zip(changed, rows, strict=True):
            if row is not None:
                kept[unit] = (there[unit], row)
        self._kept = kept
        return [row for _, row in kept.values()]

    def _stamp_of(self, unit: str) -> Hashable:
        return self._kept[unit][0] if unit in self._kept else None

    def _row(self, unit: str) -> Row | None:
        return self._lake.read_shared(self._table, unit, self._columns)

    def _stamps(self) -> Iterator[tuple[str, Hashable]]:
        """Yield each unit with a value that every write changes."""
        folder = self._lake.root / self._table
        if isinstance(folder, Path):
            if folder.is_dir():
                yield from _local(folder)
            return
        for name, info in folder.fs.find(folder.path, detail=True).items():
            if name.endswith(".parquet"):
                stamp = (info.get("ETag"), str(info.get("LastModified")), info.get("size"))
                yield name.rpartition("/")[2].removesuffix(".parquet"), stamp


def _local(folder: Path) -> Iterator[tuple[str, Hashable]]:
    with os.scandir(folder) as files:
        for file in files:
            if file.name.endswith(".parquet"):
                found = file.stat()
                stamp = (found.st_ino, found.st_mtime_ns, found.st_size)
                yield file.name.removesuffix(".parquet"), stamp


T = TypeVar("T")

_FROM_ROW = (
    *("source", "repo", "title", "revises", "verdict", "reason", "arm", "branch", "commit"),
    *("pull_request", "cost_usd", "billed_usd", "input_tokens", "output_tokens"),
)
_COLUMNS = (
    *_FROM_ROW,
    *("job_id", "state", "detail", "flow_run_id", "submitted_at", "updated_at"),
    *("pipeline", "run", "step"),
)

_STATES = {
    StateType.SCHEDULED: "scheduled",
    StateType.PENDING: "scheduled",
    StateType.RUNNING: "running",
    StateType.PAUSED: "waiting",
    StateType.CANCELLING: "cancelled",
    StateType.CANCELLED: "cancelled",
    StateType.FAILED: "failed",
    StateType.CRASHED: "crashed",
    StateType.COMPLETED: "done",
}
_OTHER_LAKE = (
    "the flow run has ended, and this lake has no row of the job: set DURABENCH_LAKE of the "
    "service to that of the workers"
)
_RAISED = "Flow run encountered an exception: "


@dataclass(frozen=True)
class JobStatus:
    """The state of one job."""

    id: str
    state: str
    """scheduled, running, waiting (for approval), done, failed, cancelled or crashed."""
    is_final: bool
    """True if nothing more happens without another request."""
    detail: str
    """Why it is in this state; empty if nothing is to be said."""
    source: str
    repo: str | None
    title: str | None
    revises: str | None
    verdict: str | None
    reason: str | None
    arm: str | None
    branch: str | None
    commit: str | None
    pull_request: str | None
    cost_usd: float | None
    """None while it is unknown."""
    billed_usd: float | None
    input_tokens: int | None
    output_tokens: int | None
    submitted_at: datetime
    updated_at: datetime
    flow_run_id: str | None

    def as_json(self) -> dict[str, Any]:
        """Return the status as JSON, with times in ISO 8601."""
        times = {
            name: getattr(self, name).isoformat(timespec="milliseconds")
            for name in ("submitted_at", "updated_at")
        }
        return {**asdict(self), **times}


class Board:
    """The jobs and the runs of pipelines of a lake and of a Prefect server."""

    def __init__(self, lake: Lake, client: PrefectClient) -> None:
        self._lake, self._client = lake, client
        self._rows = SharedRows(lake, "jobs", _COLUMNS)

    async def warm(self) -> None:
        """Read the rows of all jobs, so that the first page need not wait for them."""
        await asyncio.to_thread(self._rows.read)

    async def list_jobs(self) -> list[JobStatus]:
        """Return all jobs, the latest first. Steps of pipelines are not among them.

        Raises:
            Problem: the Prefect server does not answer.
        """
        read, runs = await asyncio.gather(
            asyncio.to_thread(self._rows.read),
            ask(flow_runs.read(self._client, UNFINISHED, JOB)),
        )
        jobs = [row for row in read if not row.get("pipeline") and not row.get("run")]
        return _merge(jobs, runs)

    async def runs(self, deployed: Deployed) -> list[JobStatus]:
        """Return the runs of a pipeline, the latest first.

        Raises:
            Problem: the Prefect server does not answer.
        """
        read, runs = await asyncio.gather(
            asyncio.to_thread(self._rows.read),
            ask(flow_runs.read(self._client, None, PIPELINE, deployment=deployed.id)),
        )
        name = deployed.name
        own = [row for row in read if row.get("pipeline") and _pipeline_of(row) == name]
        return _merge(own, runs)

    async def status(self, given: str, what: str = "job") -> JobStatus:
        """Return a job or a run, named by its id or by that of its flow run.

        Raises:
            Problem: there is no such job, or the Prefect server does not answer.
        """
        job_id = await self.identify(given)
        found = await self.statuses([job_id])
        if job_id not in found:  # a run gets its name when it begins
            waiting = await ask(flow_runs.read(self._client, UNFINISHED, PIPELINE))
            found = {job_id: _status(job_id, None, waiting[job_id])} if job_id in waiting else {}
        if job_id not in found:
            raise not_found(f"{what} {given!r}")
        return found[job_id]

    async def statuses(self, job_ids: Collection[str]) -> dict[str, JobStatus]:
        """Return those of these jobs and runs that exist, by id.

        Raises:
            Problem: the Prefect server does not answer.
        """
        read = await asyncio.to_thread(self._read, job_ids)
        steps = {name: row for name, row in read.items() if row.get("run")}
        names = [_name_flow_runs(name, read.get(name)) for name in job_ids if name not in steps]
        own, above = await asyncio.gather(
            ask(flow_runs.read_named(self._client, names)),
            ask(flow_runs.read_by_id(self._client, _flow_runs(steps.values()))),
        )
        runs: dict[str, FlowRun | None] = {**own}
        for name, row in steps.items():
            run = above.get(row["run"])
            # An open run says nothing about one of its steps.
            runs[name] = None if _is_open(run) else run
        return {each: _status(each, read.get(each), runs.get(each)) for each in {*read, *runs}}

    async def read_ordered(self, run: FlowRun) -> JobStatus:
        """Return the job of a flow run that was ordered just now, without asking for it again."""
        job_id = flow_runs.id_of(run)
        read = await asyncio.to_thread(self._read, [job_id])
        return _status(job_id, read.get(job_id), run)

    async def identify(self, given: str) -> str:
        """Return the id of a job or run that is named by it, or by the id of its flow run.

        Raises:
            Problem: there is no such flow run.
        """
        if "-" not in given:
            return given
        try:
            found = await ask(flow_runs.read_by_id(self._client, [UUID(given)]))
        except ValueError:
            found = {}
        for job_id in found:
            return job_id
        raise not_found(f"job {given!r}")

    async def row(self, job_id: str) -> Row | None:
        """Return the whole row of a job, or None if it has none so far."""
        if not job_id.isalnum():
            return None
        return await asyncio.to_thread(rows.read, self._lake, job_id)

    def _read(self, job_ids: Iterable[str]) -> dict[str, Row]:
        found = {}
        for job_id in job_ids:
            row = self._lake.read_shared("jobs", job_id, _COLUMNS) if job_id.isalnum() else None
            if row is not None:
                found[job_id] = row
        return found


async def ask(question: Awaitable[T]) -> T:
    """Return the answer of the Prefect server to a request of its client.

    Raises:
        Problem: there is none in time, or it is an error.
    """
    try:
        async with asyncio.timeout(timings().server_answer_s):
            return await question
    except (TimeoutError, httpx.TransportError) as error:
        raise Problem(
            503, f"the Prefect server does not answer ({one_line(error)}): try again"
        ) from error
    except PrefectHTTPStatusError as error:
        status = error.response.status_code
        is_theirs = status >= 500
        said = " ".join(error.response.text.split())[:500]
        raise Problem(
            503 if is_theirs else 422, f"the Prefect server refuses it ({status}): {said}"
        ) from error


def _merge(read: list[Row], runs: Mapping[str, FlowRun]) -> list[JobStatus]:
    by_id = {str(row["job_id"]): row for row in read}
    shown = [_status(each, by_id.get(each), runs.get(each)) for each in {**by_id, **runs}]
    return sorted(shown, key=lambda job: job.submitted_at, reverse=True)


def _flow_runs(read: Iterable[Row]) -> set[UUID]:
    return {UUID(row["flow_run_id"]) for row in read if row["flow_run_id"]}


def _pipeline_of(row: Row) -> str:
    return str(json.loads(row["pipeline"])["name"])


def _name_flow_runs(job_id: str, row: Row | None) -> str:
    if row is not None and row.get("pipeline"):
        return name_pipeline_run(_pipeline_of(row), job_id)
    return name_job(job_id)


def _is_open(run: FlowRun | None) -> bool:
    return run is not None and run.state_type in OPEN


def _status(job_id: str, row: Row | None, run: FlowRun | None) -> JobStatus:
    state, detail = _state(row, run)
    is_open = _is_open(run)
    known = row or _get_request(run)
    fields: dict[str, Any] = {name: known.get(name) for name in _FROM_ROW}
    created = (run.created if run else None) or datetime.now(UTC)
    return JobStatus(
        id=job_id,
        state=state,
        is_final=not is_open and state not in ("running", "waiting", "scheduled"),
        detail=" ".join(detail.split())[:1000],
        submitted_at=row["submitted_at"] if row else created,
        updated_at=row["updated_at"] if row else (run.updated if run else None) or created,
        flow_run_id=str(run.id) if run else row["flow_run_id"] if row else None,
        **fields | {"source": known.get("source") or ""},
    )


def _state(row: Row | None, run: FlowRun | None) -> tuple[str, str]:
    """Return the state of a job and its reason.

    An open flow run says where the job is. Otherwise its row does, unless the run that wrote it
    ended without another one.
    """
    by_run = _STATES.get(run.state_type, "scheduled") if run and run.state_type else "scheduled"
    if run is not None and run.state_type in OPEN:
        return by_run, row["detail"] if row and by_run == "waiting" else ""
    if row is not None and (row["state"] != "running" or run is None):
        return str(row["state"]), str(row["detail"])
    said = (run.state.message or "") if run and run.state else ""
    if row is not None:
        return by_run, row["detail"] or said
    return by_run, _OTHER_LAKE if by_run == "done" else said.removeprefix(_RAISED)


def _get_request(run: FlowRun | None) -> dict[str, Any]:
    """Return what is known of a job or of a run before its row: what was asked for."""
    parameters = run.parameters if run else {}
    asked_for = parameters.get("request") or parameters.get("definition")
    if not isinstance(asked_for, dict):
        return {}
    text = asked_for.get("task") or asked_for.get("title") or asked_for.get("name") or ""
    first = (str(text).strip().splitlines() or [""])[0]
    return {
        "source": asked_for.get("source"),
        "repo": asked_for.get("source"),
        "title": " ".join(first.split())[:200] or asked_for.get("source"),
        "revises": asked_for.get("revises"),
    }
