"""The state of jobs, from their rows in the lake and their flow runs in Prefect.

Without an answer of the Prefect server, or a job of the id, there is a `Problem`.
"""

import asyncio
import json
from collections.abc import Awaitable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
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
from flows.jobs.service.aliases import add_names
from flows.jobs.service.guard import Problem, not_found
from flows.storage.lake import Lake, Row

_READERS = 4


class SharedRows:
    """The rows of a table. Only changed files are read again."""

    def __init__(self, lake: Lake, table: str, columns: Sequence[str]) -> None:
        self._lake, self._table, self._columns = lake, table, columns
        self._cache: dict[str, tuple[Hashable, Row]] = {}

    def read(self) -> list[Row]:
        """Return all rows with these columns, in no order.

        Raises:
            InfrastructureError: a disk or object-store operation failed.
        """
        with self._lake.reading():
            stamps = dict(self._stamps())
        cache = {unit: entry for unit, entry in self._cache.items() if entry[0] == stamps.get(unit)}
        changed = [unit for unit in stamps if unit not in cache]
        read = partial(self._lake.read_shared, self._table, columns=self._columns)
        with ThreadPoolExecutor(_READERS) as readers:
            for unit, row in zip(changed, readers.map(read, changed), strict=True):
                if row is not None:
                    cache[unit] = (stamps[unit], row)
        self._cache = cache
        return [row for _, row in cache.values()]

    def _stamps(self) -> Iterator[tuple[str, Hashable]]:
        """Yield each unit with a value that every write changes."""
        folder = self._lake.root / self._table
        if isinstance(folder, Path):
            for path in folder.glob("*.parquet"):
                status = path.stat()
                yield path.stem, (status.st_ino, status.st_mtime_ns, status.st_size)
            return
        for name, info in folder.fs.find(folder.path, detail=True).items():
            if name.endswith(".parquet"):
                stamp = (info.get("ETag"), str(info.get("LastModified")), info.get("size"))
                yield name.rpartition("/")[2].removesuffix(".parquet"), stamp


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
    "service to the lake of the workers"
)
_CONTINUED = "its process has ended: a worker continues it within minutes, if one is there"
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

    def has(self, text: str) -> bool:
        """Return True if a text is in the id, the repository, the title or the detail."""
        words = (self.id, self.source, self.repo, self.title, self.detail)
        return text.casefold() in "\n".join(filter(None, words)).casefold()

    def as_json(self) -> dict[str, Any]:
        """Return the status as JSON, with times in ISO 8601."""
        times = {
            name: getattr(self, name).isoformat(timespec="milliseconds")
            for name in ("submitted_at", "updated_at")
        }
        return add_names({**asdict(self), **times})


class Board:
    """The jobs and the runs of pipelines of a lake and of a Prefect server.

    A job writes its row before the state of its flow run. So the row is read last: an older one
    would be without the verdict that waits for approval, or without the pull request.
    """

    def __init__(self, lake: Lake, client: PrefectClient) -> None:
        self._lake, self._client = lake, client
        self._rows = SharedRows(lake, "jobs", _COLUMNS)

    async def list_jobs(self) -> list[JobStatus]:
        """Return all jobs, the latest first. Steps of pipelines are not among them."""
        runs = await ask(flow_runs.read(self._client, UNFINISHED, JOB))
        read = await asyncio.to_thread(self._read_all)
        jobs = [row for row in read if not row.get("pipeline") and not row.get("run")]
        return _merge(jobs, runs)

    async def runs(self, name: str, deployed: Deployed | None = None) -> list[JobStatus]:
        """Return the runs of a pipeline, the latest first. It may be deleted already."""
        if deployed is None:
            read = await asyncio.to_thread(self._read_all)
            return _merge([row for row in read if _pipeline_of(row) == name], {})
        # Without a work pool, `pipeline/pipeline` runs every definition.
        deployment = deployed.id if deployed.pool else None
        runs = await ask(flow_runs.read(self._client, None, PIPELINE, deployment=deployment))
        read = await asyncio.to_thread(self._read_all)
        own = {id_: run for id_, run in runs.items() if _name_definition(run) == name}
        return _merge([row for row in read if _pipeline_of(row) == name], own)

    async def status(self, given: str, what: str = "job") -> JobStatus:
        """Return a job or a run, named by its id or by the id of its flow run."""
        job_id = await self.identify(given)
        statuses = await self.statuses([job_id])
        if job_id not in statuses:  # a run gets its name when it starts
            waiting = await ask(flow_runs.read(self._client, UNFINISHED, PIPELINE))
            statuses = {job_id: _status(job_id, None, waiting[job_id])} if job_id in waiting else {}
        if job_id not in statuses:
            raise not_found(f"{what} {given!r}")
        return statuses[job_id]

    async def statuses(self, job_ids: Collection[str]) -> dict[str, JobStatus]:
        """Return the existing ones of these jobs and runs, by id."""
        read = await asyncio.to_thread(self._read, job_ids)
        steps = {name: row for name, row in read.items() if row.get("run")}
        names = []
        for name in job_ids:
            pipeline = (read.get(name) or {}).get("pipeline")
            if pipeline:
                names.append(name_pipeline_run(json.loads(pipeline)["name"], name))
            elif name not in steps:
                names.append(name_job(name))
        ids = {UUID(row["flow_run_id"]) for row in steps.values() if row["flow_run_id"]}
        runs, runs_of_steps = await asyncio.gather(
            ask(flow_runs.read_named(self._client, names)),
            ask(flow_runs.read_by_id(self._client, ids)),
        )
        for name, row in steps.items():
            run = runs_of_steps.get(row["run"])
            # An open run says nothing about one of its steps.
            if run is not None and run.state_type not in OPEN:
                runs[name] = run
        read = await asyncio.to_thread(self._read, job_ids)
        return {name: _status(name, read.get(name), runs.get(name)) for name in {*read, *runs}}

    async def read_ordered(self, run: FlowRun) -> JobStatus:
        """Return the job of a flow run that was ordered just now, without asking for it again."""
        job_id = flow_runs.id_of(run)
        read = await asyncio.to_thread(self._read, [job_id])
        return _status(job_id, read.get(job_id), run)

    async def identify(self, given: str) -> str:
        """Return the id of a job or run that is named by it, or by the id of its flow run."""
        if "-" not in given:
            return given
        try:
            runs = await ask(flow_runs.read_by_id(self._client, [UUID(given)]))
        except ValueError:
            runs = {}
        for job_id in runs:
            return job_id
        raise not_found(f"job {given!r}")

    async def row(self, job_id: str) -> Row | None:
        """Return the whole row of a job, or None if it has none so far."""
        if not job_id.isalnum():
            return None
        return await asyncio.to_thread(rows.read, self._lake, job_id)

    def _read(self, job_ids: Iterable[str]) -> dict[str, Row]:
        ids = [job_id for job_id in job_ids if job_id.isalnum()]
        read = {job_id: self._lake.read_shared("jobs", job_id, _COLUMNS) for job_id in ids}
        found = rows.mark_crashed(self._lake, [row for row in read.values() if row is not None])
        return {row["job_id"]: row for row in found}

    def _read_all(self) -> list[Row]:
        return rows.mark_crashed(self._lake, self._rows.read())


async def ask(question: Awaitable[T]) -> T:
    """Return the answer of the Prefect server to a request of its client."""
    try:
        async with asyncio.timeout(timings().server_answer_s):
            return await question
    except (TimeoutError, httpx.TransportError) as error:
        raise Problem(
            503, f"the Prefect server does not answer ({one_line(error)}): try again"
        ) from error
    except PrefectHTTPStatusError as error:
        status = error.response.status_code
        reason = " ".join(error.response.text.split())[:500]
        raise Problem(
            503 if status >= 500 else 422, f"the Prefect server refuses it ({status}): {reason}"
        ) from error


def _pipeline_of(row: Row) -> str | None:
    """Return the name of the pipeline that a row is a run of; None for any other job."""
    name: str | None = json.loads(row.get("pipeline") or "{}").get("name")
    return name


def _name_definition(run: FlowRun) -> str | None:
    """Return the name of the definition that a flow run has; None for any other."""
    definition = run.parameters.get("definition")
    return definition.get("name") if isinstance(definition, dict) else None


def _merge(read: list[Row], runs: Mapping[str, FlowRun]) -> list[JobStatus]:
    by_id = {str(row["job_id"]): row for row in read}
    jobs = [_status(job_id, by_id.get(job_id), runs.get(job_id)) for job_id in {**by_id, **runs}]
    return sorted(jobs, key=lambda job: job.submitted_at, reverse=True)


def _status(job_id: str, row: Row | None, run: FlowRun | None) -> JobStatus:
    is_open = run is not None and run.state_type in OPEN
    state, detail = _state(row, run, is_open=is_open)
    details = row or _get_request(run)
    columns: dict[str, Any] = {name: details.get(name) for name in _FROM_ROW}
    columns["source"] = details.get("source") or ""
    created = (run.created if run else None) or datetime.now(UTC)
    return JobStatus(
        id=job_id,
        state=state,
        is_final=not is_open and state not in ("running", "waiting", "scheduled"),
        detail=" ".join(detail.split())[:1000],
        submitted_at=row["submitted_at"] if row else created,
        updated_at=row["updated_at"] if row else (run.updated if run else None) or created,
        flow_run_id=str(run.id) if run else row["flow_run_id"] if row else None,
        **columns,
    )


def _state(row: Row | None, run: FlowRun | None, *, is_open: bool) -> tuple[str, str]:
    """Return the state of a job and its reason.

    An open flow run decides. Otherwise the row of the job does, unless the run that wrote it ended
    without another one.
    """
    by_run = _STATES.get(run.state_type, "scheduled") if run and run.state_type else "scheduled"
    if is_open:
        if row is None:
            return by_run, "fetching the repository" if by_run == "running" else ""
        if (by_run, row["state"]) == ("running", "crashed"):
            return "scheduled", _CONTINUED
        return by_run, row["detail"] if by_run in ("running", "waiting") else ""
    if row is not None and (row["state"] not in ("running", "crashed") or run is None):
        return str(row["state"]), str(row["detail"])
    message = (run.state.message or "").removeprefix(_RAISED) if run and run.state else ""
    if row is not None:
        return by_run, message or row["detail"]
    return by_run, _OTHER_LAKE if by_run == "done" else message


def _get_request(run: FlowRun | None) -> dict[str, Any]:
    """Return the request of a job or of a run that has no row yet."""
    parameters = run.parameters if run else {}
    request = parameters.get("request") or parameters.get("definition")
    if not isinstance(request, dict):
        return {}
    text = request.get("task") or request.get("title") or request.get("name") or ""
    first_line = (str(text).strip().splitlines() or [""])[0]
    return {
        "source": request.get("source"),
        "repo": request.get("source"),
        "title": " ".join(first_line.split())[:200] or request.get("source"),
        "revises": request.get("revises"),
    }
