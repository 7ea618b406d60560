"""The state of a job in the lake's table `jobs`."""

from datetime import UTC, datetime

from flows.display.errors import UsageError
from flows.jobs.request import Request
from flows.storage.lake import Lake, Row
from reports.columns import SHARED_TABLES

_UNKNOWN: Row = {
    column.name: None
    for column in SHARED_TABLES["jobs"].columns
    if not column.required and not column.name.endswith("_json")  # a copy that the lake writes
}


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
    """Return the row of the job with this prefix of its id, or of its attempt's id.

    Raises:
        UsageError: no job has it, or several have.
    """
    rows = [
        row
        for row in lake.all_shared("jobs")
        if any(str(row[name] or "").startswith(beginning) for name in ("job_id", "attempt_id"))
    ]
    if len(rows) == 1 and beginning:
        return rows[0]
    problem = "no job" if not rows else f"{len(rows)} jobs"
    raise UsageError(f"{problem} with the id {beginning!r}: see `durabench jobs`")


def update(lake: Lake, row: Row, **changes: object) -> Row:
    """Change the row of a job in the lake, or write it first. Return the new row.

    A job that was cancelled meanwhile stays so, unless its state is among the changes.
    """
    stored = read(lake, str(row["job_id"])) or row
    row = {**stored, **changes, "updated_at": datetime.now(UTC)}
    lake.write_shared("jobs", str(row["job_id"]), row)
    return row


def read_all(lake: Lake) -> list[Row]:
    """Return the rows of all jobs, the latest first."""
    return sorted(lake.all_shared("jobs"), key=lambda row: row["submitted_at"], reverse=True)


def say_verdict(verdict: str | None) -> str:
    """Return a verdict in words, '' without one."""
    return (verdict or "").replace("_", " ")
