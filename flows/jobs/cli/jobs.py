"""Functions behind the commands of jobs."""

import asyncio
import json
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

from pydantic import ValidationError
from rich.markup import escape
from rich.table import Table

from agent.arms import ARMS
from flows.cli import running
from flows.display import terminal
from flows.display.errors import UsageError
from flows.experiments import declaration
from flows.jobs import body, rows
from flows.jobs.automation import tell_automation
from flows.jobs.chats.asking import Asking, asking
from flows.jobs.cli import pipelines
from flows.jobs.request import Request
from flows.server.api import prefect_api
from flows.storage.files import encode_patch
from flows.storage.job_names import FINAL
from flows.storage.lake import Lake, Row

_IN_A_FILE = ("command", "python")
"""Agents that need options."""


def arms(
    names: list[str] | None, experiment: Path | None, model: str | None, api_base: str | None
) -> list[dict[str, Any]]:
    """Return the arms of a job, each with its model: those of a file, or agents by name.

    Raises:
        UsageError: there is no such arm, or one has no model.
    """
    if experiment is not None:
        declared = running.overridden(declaration.load(experiment), model=model, api_base=api_base)
        chosen = [declared.arm(name) for name in names] if names else declared.arms
        return [
            arm.model_copy(update={"model": declared.model_of(arm)}).model_dump(mode="json")
            for arm in chosen
        ]
    known = {str(name): each.needs_model for name, each in ARMS.items() if name not in _IN_A_FILE}
    chosen_names = names or ["durable"]
    for name in chosen_names:
        if name not in known:
            raise UsageError(
                f"there is no arm {name!r}: name {', '.join(known)}, or an arm of a file with "
                "--experiment"
            )
    if api_base and not model:
        raise UsageError("--api-base goes with --model")
    spec = {"provider": "litellm", "name": model, "api_base": api_base} if model else None
    return [
        {"name": name, "agent": name, "model": spec if known[name] else None}
        for name in chosen_names
    ]


def request(content: dict[str, Any]) -> Request:
    """Return a validated request.

    Raises:
        UsageError: a value is invalid; the message lists every one in a line.
    """
    try:
        return Request.model_validate(content)
    except ValidationError as error:
        raise UsageError(declaration.in_one_line(error)) from None


def run(asked: Request, lake: str | None, *, approved: bool = False) -> None:
    """Run a job, showing every step, and then its result."""
    with prefect_api():
        from flows.cells.attempts import on_step
        from flows.jobs.job import job

        on_step.set(partial(running.show_step, full=False))
        job_id = running.run_flow(
            lambda: job(asked, lake, approved=approved), needs_litellm=_needs_litellm(asked)
        )
    row = rows.read(Lake.existing(lake), job_id)
    assert row is not None, "the flow wrote it"
    _ended(row, asked, asking(Lake.existing(lake), job_id))


def show(job: str, lake: str | None, *, patch: bool) -> None:
    """Print a job, or only its patch."""
    row = rows.found(Lake.existing(lake), job)
    if patch:
        if row["patch"] is None:
            raise UsageError(f"job {row['job_id']} has no patch so far")
        terminal.write_data(encode_patch(row["patch"]))
        return
    for name in ("job_id", "state", "detail", "source", "title", "base_commit", "branch", "commit",
                 "pull_request", "attempt_id"):  # fmt: skip
        if row[name]:
            terminal.show(f"{name.replace('_', ' ')}: {row[name]}")
    if row["patch"] is not None:
        terminal.write(f"\n{body.body(row, '')}")


def list_all(lake: str | None) -> None:
    """Print a table of all jobs."""
    table = Table("job", "state", "verdict", "cost", "repository", "task", "result")
    for row in rows.listed(Lake.existing(lake)):
        cost = "" if row["cost_usd"] is None else f"{row['cost_usd']:.2f}"
        result = row["pull_request"] or row["branch"] or ""
        cells = (row["job_id"], row["state"], row["verdict"] or "", cost, row["repo"], row["title"])
        table.add_row(*map(escape, (*cells, result)))
    terminal.out().print(table)


def revise(job: str, comments: str, lake: str | None) -> None:
    """Run a job that continues another one with review comments."""
    row = rows.found(Lake.existing(lake), job)
    _refuse_step(row)
    content = json.loads(row["request"])
    changes = {"id": None, "revises": row["job_id"], "task": comments, "ref": None}
    run(request(content | changes), lake)


def approve(job: str, lake: str | None) -> None:
    """Publish a job that waits for approval: here, or where its flow run is suspended.

    Raises:
        UsageError: it does not wait.
    """
    from flows.jobs.server import approving

    row = rows.found(Lake.existing(lake), job)
    if row["state"] != "waiting":
        raise UsageError(f"job {row['job_id']} does not wait for approval: it is {row['state']}")
    for each in asking(Lake.existing(lake), row["job_id"]):
        raise UsageError(
            f"arm {each.attempt.arm} of job {row['job_id']} waits for a person's {each.wanted}: "
            f"see `durabench history {each.attempt.attempt_id[:12]}`, and answer with "
            f"`durabench {'approve' if each.wanted == 'approval' else 'send'}`"
        )
    if asyncio.run(approving.approve(row["flow_run_id"])):
        terminal.show(f"job {row['job_id']} is approved; a worker continues it")
        return
    if row["pipeline"] or row["run"]:
        pipelines.approve(row, lake)
        return
    run(request(json.loads(row["request"])), lake, approved=True)


def cancel(job: str, lake: str | None) -> None:
    """Cancel a job: its flow run, if a configured server knows it, and its publication.

    Raises:
        UsageError: it has ended.
    """
    store = Lake.existing(lake)
    row = rows.found(store, job)
    _refuse_step(row)
    if row["state"] in FINAL:
        raise UsageError(f"job {row['job_id']} has ended: it is {row['state']}")
    rows.update(store, row, state="cancelled", detail="")
    is_told = asyncio.run(_cancel_run(row))
    stopped = "; its flow run is asked to stop" if is_told else ""
    terminal.show(f"job {row['job_id']} is cancelled{stopped}")


def _refuse_step(row: Row) -> None:
    """Check that a job is none of a pipeline's steps.

    Raises:
        UsageError: it is one.
    """
    if row["run"]:
        raise UsageError(
            f"job {row['job_id']} is a step of run {row['run']}: name that run instead"
        )


async def _cancel_run(row: Row) -> bool:
    """Ask the flow run of a job to stop. Return False if no server has it."""
    from prefect.client.orchestration import get_client
    from prefect.settings import PREFECT_API_URL

    from flows.jobs.server import job_runs

    if not PREFECT_API_URL.value() or row["flow_run_id"] is None:
        return False
    async with get_client() as client:
        return await job_runs.cancel(client, UUID(row["flow_run_id"]))


def _ended(row: Row, asked: Request, asks: list[Asking]) -> None:
    for each in asks:
        attempt, command = each.attempt, "approve" if each.wanted == "approval" else "send"
        terminal.show(each.about)
        terminal.show(
            f"arm {attempt.arm} waits for a person's {each.wanted}: "
            f"`durabench {command} {attempt.attempt_id[:12]}`, then the same command again"
        )
    if asks:
        return
    verdict = (row["verdict"] or "").replace("_", " ")
    terminal.show(f"job {row['job_id']}: {row['state']}, {verdict}: {row['reason']}")
    if warned := tell_automation(row["patch"]):
        terminal.show(f"the patch {warned}")
    if row["state"] == "waiting":
        terminal.show(f"`durabench job approve {row['job_id']}` publishes it")
        return
    if asked.publish == "patch":
        terminal.write_data(encode_patch(row["patch"]))
    else:
        terminal.show(row["pull_request"] or f"branch {row['branch']}")


def _needs_litellm(asked: Request) -> bool:
    specs = [arm.model or asked.model for arm in asked.arms if ARMS[arm.agent].needs_model]
    return any(spec is not None and spec.provider == "litellm" for spec in specs)
