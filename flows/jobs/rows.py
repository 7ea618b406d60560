"""The state of a job in the lake's table `jobs`."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import UTC, datetime

from agent.errors import LeaseHeld
from agent.journal.holding import hold_lease, is_dead
from flows.display.errors import UsageError
from flows.display.terminal import say
from flows.jobs.request import Request
from flows.storage.job_names import experiment_of
from flows.storage.journals import existing_journal, open_journal
from flows.storage.lake import Lake, Row
from reports.columns import SHARED_TABLES

_UNKNOWN: Row = {
    column.name: None
    for column in SHARED_TABLES["jobs"].columns
    if not column.required and not column.name.endswith("_json")  # a copy that the lake writes
}


CRASHED = "its process has ended: run it again to continue"


def new(request: Request, **known: object) -> Row:
    """Return the first row of a job."""
    now = datetime.now(UTC)
    return {
        **_UNKNOWN,
        "job_id": request.job_id,
        "state": "running",
        "detail": "",
        "request": request.model_dump_json(),
        "revises": request.revises,
        "submitted_at": now,
        "updated_at": now,
        **known,
    }


def read(lake: Lake, job_id: str) -> Row | None:
    """Return the row of a job, or None if there is no such job."""
    return lake.read_shared("jobs", job_id)


def find(lake: Lake, beginning: str) -> Row:
    """Return the row of the job with this prefix of its id or of its attempt's id.

    The address of a pull request finds the first job of it.

    Raises:
        UsageError: no job has it, or several have.
    """
    everything = lake.all_shared("jobs")
    if "://" in beginning:
        of_pull = [row for row in everything if row["pull_request"] == beginning.rstrip("/")]
        rows = sorted(of_pull, key=lambda row: row["submitted_at"])[:1]
    else:
        rows = [
            row
            for row in everything
            if any(str(row[name] or "").startswith(beginning) for name in ("job_id", "attempt_id"))
        ]
    if len(rows) == 1 and beginning:
        return mark_crashed(lake, rows)[0]
    problem = "no job" if not rows else f"{len(rows)} jobs"
    raise UsageError(f"{problem} with the id {beginning!r}: see `durabench jobs`")


def find_last(lake: Lake, row: Row) -> Row:
    """Return the row of the last finished job on the branch of a job, which may be its own."""
    others = [
        other
        for other in lake.all_shared("jobs")
        if (other["repo"], other["branch"]) == (row["repo"], row["branch"])
    ]
    finished = [other for other in others if row["branch"] and other["state"] == "done"]
    return max(finished, key=lambda other: other["submitted_at"], default=row)


def update(lake: Lake, row: Row, **changes: object) -> Row:
    """Change the row of a job in the lake, or write it first. Return the new row.

    A job that was cancelled meanwhile stays so, unless its state is among the changes. One that
    could not start is written anew.
    """
    stored = read(lake, str(row["job_id"])) or row
    if not stored["base_commit"]:
        stored = row
    row = {**stored, **changes, "updated_at": datetime.now(UTC)}
    lake.write_shared("jobs", str(row["job_id"]), row)
    return row


def refuse(lake: Lake, request: Request, reason: str, is_ordered: bool, **known: object) -> None:
    """Write that a job cannot start now, with the reason.

    A new one gets a row only if it `is_ordered`: whoever runs a command reads why.
    """
    row = read(lake, request.job_id)
    if row is None and is_ordered:
        row = new(
            request,
            source=request.source,
            repo=request.source,
            title=request.title,
            statement=request.task,
            base_commit="",
            image="",
            **known,
        )
    if row is not None and row["state"] != "done":
        update(lake, row, state="failed", detail=reason, **known)


def report(lake: Lake, row: Row, work: str) -> None:
    """Say what a job does before its arms are at work, also in its row."""
    say(f"job {row['job_id']}: {work}")
    update(lake, row, detail=work)


def read_all(lake: Lake) -> list[Row]:
    """Return the rows of all jobs, the latest first."""
    rows = mark_crashed(lake, lake.all_shared("jobs"))
    return sorted(rows, key=lambda row: row["submitted_at"], reverse=True)


@asynccontextmanager
async def show_life(lake: Lake, job_id: str) -> AsyncIterator[None]:
    """Hold a lease during the block, without which a running job counts as crashed."""
    journal, name = open_journal(lake), experiment_of(job_id)
    journal.offer(name)
    async with AsyncExitStack() as stack:
        with suppress(LeaseHeld):  # another process works on the same job
            await stack.enter_async_context(hold_lease(journal, name))
        yield


def mark_crashed(lake: Lake, rows: list[Row]) -> list[Row]:
    """Return rows with the state `crashed` for each job that no process works on any more.

    A step of a pipeline lives as long as its run.
    """
    names = {experiment_of(r["run"] or r["job_id"]) for r in rows if r["state"] == "running"}
    journal = existing_journal(lake) if names else None
    holders = journal.holders(names) if journal else {}
    dead = {name for name in names if name not in holders or is_dead(holders[name])}
    return [
        {**row, "state": "crashed", "detail": CRASHED}
        if row["state"] == "running" and experiment_of(row["run"] or row["job_id"]) in dead
        else row
        for row in rows
    ]


def is_answer(row: Row) -> bool:
    """Return True for a job that ended without a change, with an answer."""
    return row["state"] == "done" and row["patch"] is not None and not row["patch"].strip()


def say_verdict(verdict: str | None) -> str:
    """Return a verdict in words, '' without one."""
    return (verdict or "").replace("_", " ")
